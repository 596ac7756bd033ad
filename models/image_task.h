// Defines the classification of small images as a Task.
#pragma once

#include "models/image_options.h"
#include "models/train.h"

namespace capstan::models {

/// "mlp" or "lenet", with weights drawn from the default generator. Throws ValueError for another
/// name. To add a model, add a line here.
Classifier make_image_model(const std::string& name, double dropout = 0);

/// As train() with a Task, and with a new model. Throws ValueError for options that are impossible,
/// too.
TrainResult train(const ImageOptions& options, distributed::Communicator& communicator,
                  const data::Dataset& training_set, const data::Dataset& test_set,
                  std::ostream& out);

}  // namespace capstan::models

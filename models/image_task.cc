#include "models/image_task.h"

#include "core/raise.h"
#include "core/random.h"
#include "models/lenet.h"
#include "models/mlp.h"

namespace capstan::models {

Classifier make_image_model(const std::string& name, double dropout) {
  if (name == "mlp") return Classifier(std::make_unique<Mlp>(dropout));
  if (name == "lenet") return Classifier(std::make_unique<LeNet>(dropout));
  raise<ValueError>("[make_image_model] a model is 'mlp' or 'lenet', got '{}'", name);
}

TrainResult train(const ImageOptions& options, distributed::Communicator& communicator,
                  const data::Dataset& training_set, const data::Dataset& test_set,
                  std::ostream& out) {
  check(options);
  manual_seed(options.seed);
  Task task{.name = options.model,
            .model = Classifier::recorded(
                [&] { return make_image_model(options.model, options.dropout); }),
            .training_set = training_set,
            .test_set = test_set};
  task.result = [](const Evaluation& test) {
    return fmt::format("test accuracy {:.2f} %", 100 * test.accuracy());
  };
  task.details = [](const Evaluation& test) { return fmt::format("test loss {:.4f}", test.loss); };
  return train(options, task, communicator, out);
}

}  // namespace capstan::models

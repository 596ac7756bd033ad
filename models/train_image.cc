// train_image: trains LeNet or an MLP on Fashion-MNIST, alone or under mpirun. See --help.
#include <iostream>

#include "distributed/comm/launch.h"
#include "models/image_task.h"
#include "models/stop_signal.h"
#include "models/trainer.h"

using namespace capstan;
using namespace capstan::models;
using distributed::Communicator;

namespace {

TrainResult train_on_files(const ImageOptions& options, Communicator& communicator) {
  std::optional<data::ImageDataset> training_set, test_set;
  communicator.together("data", [&] {
    training_set = data::fashion_mnist(options.data, data::Split::train);
    test_set = data::fashion_mnist(options.data, data::Split::test);
  });
  communicator.agree("data",
                     "training set " + training_set->digest() + ", test set " + test_set->digest());
  catch_stop_signals();
  return train(options, communicator, *training_set, *test_set, std::cout);
}

int run(Communicator& communicator, int argc, char** argv) {
  return run_trainer<ImageOptions>(communicator, argc, argv, [&](const ImageOptions& options) {
    return train_on_files(options, communicator);
  });
}

}  // namespace

int main(int argc, char** argv) { return distributed::run_main(argc, argv, run); }

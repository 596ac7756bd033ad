// The example of the README: a model and its training, on any number of ranks.
#include <cstdio>

#include "capstan.h"

using namespace capstan;

struct Mlp : nn::Module {
  nn::Linear in{784, 512}, out{512, 10};
  CAPSTAN_MODULE(Mlp, in, out)  // names, checkpoints, clone() and hooks come from this line
  Tensor forward(const Tensor& images) { return out(relu(in(flatten(images, 1)))); }
};

int train(distributed::Communicator& ranks, int, char**) {
  data::ImageDataset images = data::fashion_mnist();
  data::DataLoader loader(
      images, {.batch = 128, .shuffle = true, .rank = ranks.rank(), .ranks = ranks.size()});
  Mlp model;
  distributed::Ddp ddp(model, ranks);  // attaches; the model stays what it is
  optim::Sgd sgd(model.parameters(), {.momentum = 0.9});
  optim::WarmupCosine rate{.peak = 0.1, .warmup = 100, .total = loader.steps_per_epoch()};
  int64_t step = 0;
  for (data::Batch& batch : loader.epoch(0)) {
    if (batch.size() > 0) {
      ddp.backward(cross_entropy(model(batch.inputs), batch.labels), batch.size());
    } else {
      ddp.backward_without_data();
    }
    sgd.step(rate(step++));
    sgd.zero_grad();
  }
  if (ranks.rank() == 0) std::printf("loss %.4f\n", ddp.loss());
  return 0;
}

int main(int argc, char** argv) { return distributed::run_main(argc, argv, train); }

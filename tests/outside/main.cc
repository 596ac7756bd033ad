// A project of its own that uses Capstan: a small network learns XOR, which no linear model can.
#include <cstdio>

#include "capstan.h"

using namespace capstan;

struct Xor : nn::Module {
  nn::Linear in{2, 16}, out{16, 2};
  CAPSTAN_MODULE(Xor, in, out)
  Tensor forward(const Tensor& x) { return out(tanh(in(x))); }
};

int main() {
  const Tensor inputs = from_vector<float>({0, 0, 0, 1, 1, 0, 1, 1}, {4, 2});
  const Tensor labels = from_vector<int64_t>({0, 1, 1, 0}, {4});

  Xor model;
  optim::Sgd optimizer(model.parameters(), {.momentum = 0.9});
  double loss = 0;
  for (int step = 0; step < 200; ++step) {
    const Tensor mean = cross_entropy(model(inputs), labels);
    optimizer.zero_grad();
    backward(mean);
    optimizer.step(0.1);
    loss = mean.item<double>();
  }
  std::printf("loss %.6f\n", loss);
  return loss < 0.1 ? 0 : 1;
}

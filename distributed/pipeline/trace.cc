#include "distributed/pipeline/trace.h"

#include "autograd/node.h"
#include "core/costs.h"
#include "core/raise.h"
#include "core/random.h"

namespace capstan::distributed::pipeline {
namespace {

/// Restarts the thread's random numbers while it lives.
class FreshGenerator {
 public:
  FreshGenerator() : before_(std::exchange(default_generator(), Generator())) {}
  ~FreshGenerator() { default_generator() = before_; }
  FreshGenerator(const FreshGenerator&) = delete;
  FreshGenerator& operator=(const FreshGenerator&) = delete;

 private:
  Generator before_;
};

Tensors run(const nn::Layer& layer, const Tensors& values) {
  try {
    return layer.forward(values);
  } catch (const Error& error) {
    raise<ValueError>("[pipeline] layer '{}' cannot run on meta with {}: {}", layer.name,
                      to_string(crossings(values)), error.what());
  }
}

}  // namespace

std::vector<Crossing> crossings(const Tensors& tensors) {
  std::vector<Crossing> found;
  for (const Tensor& tensor : tensors) {
    found.push_back({tensor.shape(), tensor.dtype(), tensor.requires_grad()});
  }
  return found;
}

std::string to_string(const std::vector<Crossing>& tensors) {
  std::string text;
  for (const Crossing& tensor : tensors) {
    text += fmt::format("{}{} {}{}", text.empty() ? "" : ", ", tensor.dtype, tensor.shape,
                        tensor.needs_gradient ? " with a gradient" : "");
  }
  return text.empty() ? "nothing" : text;
}

Tensors on_meta(const Tensors& tensors) {
  Tensors shapes;
  for (const Tensor& tensor : tensors) {
    shapes.push_back(empty(tensor.shape(), {tensor.dtype(), Device::meta()}));
  }
  return shapes;
}

Trace trace(const nn::Chain& chain, const Cut& cut, const Tensors& inputs) {
  const FreshGenerator fresh;
  const GradMode recording(true);  // it also serves runs without a tape
  Trace trace;
  Tensors values = on_meta(inputs);
  auto layer = chain.layers().begin();
  for (const int64_t size : cut) {
    trace.into.push_back(crossings(values));
    trace.drawn.push_back(default_generator().offset());
    for (const auto end = layer + size; layer != end; ++layer) values = run(*layer, values);
  }
  trace.into.push_back(crossings(values));
  return trace;
}

std::vector<double> layer_costs(const nn::Chain& chain, const Tensors& inputs) {
  const FreshGenerator fresh;
  Tensors values = on_meta(inputs);
  std::vector<std::function<void()>> layers;
  for (const nn::Layer& layer : chain.layers()) {
    layers.emplace_back([&] { values = run(layer, values); });
  }
  return count_flops(layers);
}

}  // namespace capstan::distributed::pipeline

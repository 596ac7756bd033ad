#include "autograd/gradcheck.h"

#include <cmath>

#include "autograd/elementwise.h"
#include "autograd/engine.h"
#include "autograd/rearrange.h"
#include "autograd/reduce.h"
#include "autograd/views.h"
#include "core/raise.h"
#include "core/random.h"

namespace capstan {

void gradcheck(const std::function<Tensor(const std::vector<Tensor>&)>& f,
               const std::vector<Tensor>& inputs, const GradcheckOptions& options) {
  for (size_t k = 0; k < inputs.size(); ++k) {
    if (inputs[k].requires_grad() &&
        (inputs[k].dtype() != Dtype::float64 || !inputs[k].is_contiguous())) {
      raise<GradientError>("[gradcheck] input {} must be dense float64, got {} {}", k,
                           inputs[k].dtype(), inputs[k].shape());
    }
    if (inputs[k].requires_grad()) zero_grad(inputs[k]);
  }
  // A weighted sum of the outputs checks the whole Jacobian's action at once: a plain sum would not
  // see a gradient that goes to the wrong element.
  Generator generator(17);
  const Tensor out = f(inputs);
  const Tensor weights = rand(out.shape(), 0.5, 1.5, {out.dtype(), out.device()}, generator);
  const Tensor total = sum(out * weights);
  if (total.requires_grad()) backward(total);  // else the tape says 0

  const auto value = [&] {
    NoGrad guard;
    return sum(f(inputs) * weights).item<double>();
  };
  for (size_t k = 0; k < inputs.size(); ++k) {
    if (!inputs[k].requires_grad()) continue;
    const std::vector<double> from_tape = inputs[k].has_grad()
                                              ? inputs[k].grad().to_vector<double>()
                                              : std::vector<double>(inputs[k].numel());
    for (int64_t i = 0; i < inputs[k].numel(); ++i) {
      const double x = inputs[k].data<double>()[i];
      const auto at = [&](double moved) {
        inputs[k].mutable_data<double>()[i] = moved;
        return value();
      };
      const double slope = (at(x + options.step) - at(x - options.step)) / (2 * options.step);
      inputs[k].mutable_data<double>()[i] = x;
      const double error = std::abs(slope - from_tape[i]);
      const double allowed =
          options.absolute + options.relative * std::max(std::abs(slope), std::abs(from_tape[i]));
      if (!(error <= allowed)) {
        raise<GradientError>(
            "[gradcheck] input {} element {}: the tape says {}, finite differences {}", k, i,
            from_tape[i], slope);
      }
    }
  }
}

void gradgradcheck(const std::function<Tensor(const std::vector<Tensor>&)>& f,
                   const std::vector<Tensor>& inputs, const GradcheckOptions& options) {
  Generator generator(18);
  const Tensor out = f(inputs);
  std::vector<Tensor> all = inputs;  // and the seed
  all.push_back(require_grad(rand(out.shape(), 0.5, 1.5, {out.dtype(), out.device()}, generator)));
  const auto gradients = [&](const std::vector<Tensor>& all) {
    const bool differentiable = grad_enabled();  // off for the finite differences
    GradMode recording(true);
    const std::vector<Tensor> in(all.begin(), all.end() - 1);
    std::vector<Tensor> wanted, flat;
    for (const Tensor& input : in) {
      if (input.requires_grad()) wanted.push_back(input);
    }
    for (const Tensor& g : grad({f(in)}, wanted,
                                {.seeds = {all.back()},
                                .create_graph = differentiable,
                                .unreached = Unreached::zeros})) {
      flat.push_back(reshape(g, {g.numel()}));
    }
    return cat(flat);
  };
  gradcheck(gradients, all, options);
}

}  // namespace capstan

// Defines CustomFunction: forward and backward written by hand, as one operation of the tape with
// any number of inputs and outputs, all checked. (Inside Capstan, operations use record() of
// record.h, which is quicker and checks less.)
//
//   const CustomFunction scaled_exp{
//       .name = "scaled_exp",
//       .forward = [](CustomContext& context, const std::vector<Tensor>& in) {
//         const Tensor y = exp(in[0]) * 2;
//         context.save(y);
//         return std::vector{y};
//       },
//       .backward = [](const CustomContext& context, const std::vector<Tensor>& grads) {
//         return std::vector{grads[0] * context.saved(0)};
//       }};
//   const Tensor y = scaled_exp({x})[0];
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "autograd/saved.h"

namespace capstan {

namespace detail {
class CustomNode;
}
struct CustomFunction;

/// What one call of a CustomFunction carries from forward to backward.
class CustomContext {
 public:
  /// Keeps a tensor for backward (in forward only). Keep inputs and outputs where that is enough:
  /// anything else is a constant for gradients of gradients, which saved() then refuses to be.
  void save(const Tensor& tensor);
  /// The tensor that was saved as number `index`. Throws GradientError if it was changed in place
  /// since, or cannot be differentiated again; ValueError if there is none.
  Tensor saved(int index) const;
  /// True if backward must give a gradient for this input; others may stay undefined.
  bool wanted(int input) const { return wanted_[input]; }

 private:
  friend struct CustomFunction;
  friend class detail::CustomNode;

  struct Kept {
    Saved tensor;
    bool on_tape;  // an input or an output
  };
  std::string name_;
  std::vector<Tensor> saving_;  // while forward runs
  std::vector<Kept> saved_;
  std::vector<bool> wanted_;
};

struct CustomFunction {
  std::string name;  // for messages
  /// The outputs from the inputs. Runs off the tape.
  std::function<std::vector<Tensor>(CustomContext&, const std::vector<Tensor>& inputs)> forward;
  /// The gradients of the inputs, undefined where they are 0 or not wanted, from those of the
  /// outputs, 0 where none came. Made of recorded operations it can be differentiated again.
  std::function<std::vector<Tensor>(const CustomContext&, const std::vector<Tensor>& grads)>
      backward;

  /// Runs forward, and puts the floating outputs on the tape if an input is. Backward throws
  /// GradientError unless the gradients are as many as the inputs and each is like its input.
  std::vector<Tensor> operator()(const std::vector<Tensor>& inputs) const;
};

}  // namespace capstan

#include "autograd/checkpoint.h"

#include "autograd/autocast.h"
#include "autograd/saved.h"
#include "core/raise.h"
#include "core/random.h"

namespace capstan {

namespace {

using Function = std::function<Tensor(const std::vector<Tensor>&)>;

/// One call of checkpoint(): how to run it again, and what that kept. Alive as long as the tape
/// holds one of its tensors.
class Region : public std::enable_shared_from_this<Region> {
 public:
  Region(const Function& f, const std::vector<Tensor>& inputs)
      : f_(f), random_(default_generator()), autocast_(autocast_dtype()) {
    for (const Tensor& input : inputs) inputs_.emplace_back(input);
  }

  Tensor run(const std::vector<Tensor>& inputs) {
    PackSaved pack([this](const Tensor& tensor) { return note(tensor); });
    return f_(inputs);
  }

 private:
  /// A tensor that the tape would have kept.
  struct Kept {
    Shape shape;
    Dtype dtype;
    int64_t version;
    bool needed = true;
    Tensor value = {};  // between running again and the last use

    bool matches(const Tensor& x) const {
      return x.shape() == shape && x.dtype() == dtype && x.version() == version;
    }
  };

  /// The claim of one place on the tape to a tensor: frees it with the place.
  struct Claim {
    std::shared_ptr<Region> region;
    size_t number;

    ~Claim() {
      region->kept_[number].needed = false;
      region->kept_[number].value = Tensor();
    }
  };

  Unpack note(const Tensor& tensor) {
    const auto claim = std::make_shared<Claim>(shared_from_this(), kept_.size());
    kept_.push_back({tensor.shape(), tensor.dtype(), tensor.version()});
    return [claim] { return claim->region->value(claim->number); };
  }

  Tensor value(size_t number) {
    Kept& kept = kept_[number];
    if (!kept.value.defined()) run_again();
    if (kept.value.version() != kept.version) {
      raise<GradientError>(
          "[checkpoint] tensor {} that the function keeps for backward, {} {}, was changed in "
          "place "
          "later on; clone() it before the change",
          number, kept.dtype, kept.shape);
    }
    return kept.value;
  }

  void run_again() {
    std::vector<Tensor> inputs;
    GradMode recording(true);
    Autocast autocast(autocast_);
    for (const Saved& input : inputs_) inputs.push_back(input.get());

    size_t number = 0;
    PackSaved pack([&](const Tensor& tensor) -> Unpack {
      if (number < kept_.size()) {
        Kept& kept = kept_[number];
        if (!kept.matches(tensor)) {
          raise<GradientError>(
              "[checkpoint] the function must do the same when it runs again, on values that were "
              "not changed in place: tensor {} that it keeps was {} {} of version {}, and is {} {} "
              "of version {}",
              number, kept.dtype, kept.shape, kept.version, tensor.dtype(), tensor.shape(),
              tensor.version());
        }
        if (kept.needed) kept.value = tensor;
      }
      ++number;
      return [tensor] { return tensor; };
    });
    const Generator now = std::exchange(default_generator(), random_);
    try {
      f_(inputs);
    } catch (...) {
      default_generator() = now;
      throw;
    }
    default_generator() = now;
    if (number != kept_.size()) {
      raise<GradientError>(
          "[checkpoint] the function must do the same when it runs again: it kept {} tensors for "
          "backward, and then {}",
          kept_.size(), number);
    }
  }

  Function f_;
  Generator random_;               // as it was at the start
  std::optional<Dtype> autocast_;  // likewise
  std::vector<Saved> inputs_;
  std::vector<Kept> kept_;
};

}  // namespace

Tensor checkpoint(const Function& f, const std::vector<Tensor>& inputs) {
  if (!grad_enabled()) return f(inputs);
  return std::make_shared<Region>(f, inputs)->run(inputs);
}

Tensor checkpoint(const std::function<Tensor(const Tensor&)>& f, const Tensor& input) {
  return checkpoint([f](const std::vector<Tensor>& inputs) { return f(inputs[0]); },
                    std::vector{input});
}

}  // namespace capstan

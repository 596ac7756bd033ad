#include "autograd/saved.h"

#include "core/raise.h"

namespace capstan {

namespace {

thread_local const PackSaved* packing = nullptr;

/// Suspends packing: what a hook computes is not packed in turn.
class NoPacking {
 public:
  NoPacking() : before_(std::exchange(packing, nullptr)) {}
  ~NoPacking() { packing = before_; }

 private:
  const PackSaved* before_;
};

const char* operation() {
  const Node* const node = detail::running_node();
  return node ? node->operation() : "saved";
}

}  // namespace

detail::Packed::Packed(const Tensor& tensor, const PackSaved& how)
    : shape(tensor.shape()),
      dtype(tensor.dtype()),
      device(tensor.device()),
      edge(edge_to(tensor)),
      unpack(how.pack(tensor)) {}

PackSaved::PackSaved(std::function<Unpack(const Tensor&)> pack)
    : pack_(std::move(pack)), outer_(std::exchange(packing, this)) {}
PackSaved::~PackSaved() { packing = outer_; }

Unpack PackSaved::pack(const Tensor& tensor) const {
  NoPacking no_packing;
  NoGrad no_grad;
  return pack_(detach(tensor));
}

Saved::Saved(const Tensor& input) : Saved(input, kInput) {}

Saved Saved::output(const Tensor& result, int output) { return Saved(detach(result), output); }

Saved::Saved(const Tensor& tensor, int output) : output_(output) {
  if (packing && grad_enabled()) {
    packed_ = make_ref<detail::Packed>(tensor, *packing);
  } else {
    tensor_ = tensor;
    version_ = tensor.version();
  }
}

Tensor Saved::get() const {
  Tensor value = tensor_;
  if (packed_) {
    {
      NoGrad no_grad;
      value = packed_->unpack();
    }
    if (!value.defined() || value.shape() != packed_->shape || value.dtype() != packed_->dtype ||
        !(value.device() == packed_->device)) {
      raise<GradientError>(
          "[{}] {} {} on {} was packed for backward, and unpacked as {}", operation(),
          packed_->dtype, packed_->shape, packed_->device,
          value.defined() ? fmt::format("{} {} on {}", value.dtype(), value.shape(), value.device())
                          : "nothing");
    }
    if (grad_enabled() && packed_->edge.node) {
      value = detail::on_tape(value, packed_->edge.node, packed_->edge.output);
    }
  } else if (tensor_.version() != version_) {
    raise<GradientError>(
        "[{}] a value of {} saved for backward was changed in place (version {}, saved at {}); "
        "clone() it before the change",
        operation(), tensor_.shape(), tensor_.version(), version_);
  }
  if (output_ != kInput && grad_enabled() && detail::running_node()) {
    value = detail::on_tape(value, Ref<Node>(detail::running_node()), output_);
  }
  return value;
}

}  // namespace capstan

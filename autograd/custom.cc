#include "autograd/custom.h"

#include <algorithm>
#include <optional>

#include "core/raise.h"

namespace capstan {

namespace {

/// What a gradient must have in common with its tensor.
struct Form {
  Shape shape;
  Dtype dtype;
  Device device;

  explicit Form(const Tensor& x) : shape(x.shape()), dtype(x.dtype()), device(x.device()) {}
  bool operator==(const Form&) const = default;
  std::string text() const { return fmt::format("{} {} on {}", dtype, shape, device); }
};

std::vector<Form> forms(const std::vector<Tensor>& tensors) {
  return {tensors.begin(), tensors.end()};
}

bool is_one_of(const Tensor& x, const std::vector<Tensor>& tensors) {
  return std::any_of(tensors.begin(), tensors.end(), [&](const Tensor& t) { return t.same(x); });
}

}  // namespace

class detail::CustomNode final : public Node {
 public:
  CustomNode(std::shared_ptr<const CustomFunction> function, CustomContext context,
             const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs)
      : Node(function->name.c_str(), static_cast<int>(outputs.size())),
        function_(std::move(function)),
        inputs_(forms(inputs)),
        outputs_(forms(outputs)),
        context_(std::move(context)) {
    for (const Tensor& input : inputs) edges_.push_back(edge_to(input));
  }

  std::span<const Edge> edges() const override { return edges_; }
  void release() override { context_.reset(); }
  void backward(std::span<const Tensor> grads, Wanted wanted,
                std::span<Tensor> input_grads) override {
    if (!context_) graph_was_freed(operation());
    std::vector<Tensor> all(grads.begin(), grads.end());
    for (size_t i = 0; i < all.size(); ++i) {
      const Form& form = outputs_[i];
      if (!all[i].defined()) all[i] = zeros(form.shape, {form.dtype, form.device});
    }
    context_->wanted_.resize(edges_.size());
    for (size_t i = 0; i < edges_.size(); ++i) context_->wanted_[i] = wanted[i];
    const std::vector<Tensor> results = function_->backward(*context_, all);
    if (results.size() != edges_.size()) {
      raise<GradientError>("[{}] its backward must give a gradient for each of {} inputs, got {}",
                           operation(), edges_.size(), results.size());
    }
    for (size_t i = 0; i < results.size(); ++i) {
      if (!results[i].defined() || !wanted[i]) continue;
      if (!(Form(results[i]) == inputs_[i])) {
        raise<GradientError>("[{}] the gradient of input {} must be {}, got {}", operation(), i,
                             inputs_[i].text(), Form(results[i]).text());
      }
      input_grads[i] = results[i];
    }
  }

 private:
  std::shared_ptr<const CustomFunction> function_;
  std::vector<Form> inputs_, outputs_;
  std::optional<CustomContext> context_;
  std::vector<Edge> edges_;
};

void CustomContext::save(const Tensor& tensor) { saving_.push_back(tensor); }

Tensor CustomContext::saved(int index) const {
  if (index < 0 || index >= static_cast<int>(saved_.size())) {
    raise<ValueError>("[{}] saved {} tensors, and has no number {}", name_, saved_.size(), index);
  }
  if (grad_enabled() && !saved_[index].on_tape) {
    raise<GradientError>(
        "[{}] has no gradient of the gradient: saved tensor {} is neither an input nor an output",
        name_, index);
  }
  return saved_[index].tensor.get();
}

std::vector<Tensor> CustomFunction::operator()(const std::vector<Tensor>& inputs) const {
  CustomContext context;
  context.name_ = name;
  std::vector<Tensor> outputs = no_grad([&] { return forward(context, inputs); });
  const std::vector<Tensor> saving = std::exchange(context.saving_, {});
  const bool on_tape = grad_enabled() && std::any_of(inputs.begin(), inputs.end(),
                                                     [](auto& x) { return x.requires_grad(); });
  if (!on_tape) return outputs;

  for (const Tensor& tensor : saving) {
    const auto output = std::find_if(outputs.begin(), outputs.end(),
                                     [&](const Tensor& y) { return y.same(tensor); });
    if (is_one_of(tensor, inputs)) {
      context.saved_.push_back({Saved(tensor), true});
    } else if (output != outputs.end()) {
      const int number = static_cast<int>(output - outputs.begin());
      context.saved_.push_back({Saved::output(tensor, number), true});
    } else {
      context.saved_.push_back({Saved(tensor), !is_floating(tensor.dtype())});
    }
  }
  const auto node = make_ref<detail::CustomNode>(std::make_shared<const CustomFunction>(*this),
                                                 std::move(context), inputs, outputs);
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (is_floating(outputs[i].dtype())) outputs[i] = detail::on_tape(outputs[i], node, i);
  }
  return outputs;
}

}  // namespace capstan

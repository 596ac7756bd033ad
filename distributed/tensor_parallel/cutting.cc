// Implements Cutting: the rules first, then what rules are made of, then the parameters.
#include "distributed/tensor_parallel/cutting.h"

#include <typeinfo>

#include "core/raise.h"
#include "distributed/name_patterns.h"
#include "distributed/tensor_parallel/door.h"

namespace capstan::distributed {
namespace {

constexpr int64_t kSequenceAxis = 1;  // of activations [batch, n, ...]

std::string child(const std::string& module, const std::string& name) {
  return module.empty() ? name : module + "." + name;
}

/// Calls back for each parameter, under each of its names.
class ParameterWalk final : public nn::MemberVisitor {
 public:
  using Visit = std::function<void(const std::string& name, nn::Parameter&)>;
  ParameterWalk(nn::Module& model, Visit visit) : visit_(std::move(visit)) {
    model.visit_members(*this);
  }
  void parameter(const std::string& name, nn::Parameter& p) override { visit_(prefix_ + name, p); }
  void buffer(const std::string&, nn::Buffer&) override {}
  void module(const std::string& name, nn::Module& module) override {
    const std::string before = std::exchange(prefix_, prefix_ + name + ".");
    module.visit_members(*this);
    prefix_ = before;
  }

 private:
  Visit visit_;
  std::string prefix_;
};

/// `module` as the type that a rule is for; not as a type derived from it, which may do otherwise.
template <class Layer>
Layer& expect(Cut cut, const std::string& name, nn::Module& module) {
  if (typeid(module) != typeid(Layer)) {
    raise<ValueError>("[tensor_parallel] {} cannot cut '{}', a {}", to_string(cut), name,
                      module.type_name());
  }
  return static_cast<Layer&>(module);
}

}  // namespace

std::string to_string(Cut cut) {
  constexpr const char* kNames[] = {"column",     "row",      "feed_forward",  "heads",
                                    "vocabulary", "sequence", "sequence_start"};
  return kNames[static_cast<int>(cut)];
}

Tensor cut_out(const Tensor& whole, const ParameterSlice& slice) {
  if (!slice.axis) return whole;
  const Tensor view =
      view_of(whole, whole.layout().sliced(*slice.axis, slice.first, slice.first + slice.count));
  if (whole.device().kind != Device::Kind::meta || Recipe::recording()) return dense_copy(view);
  return empty(view.shape(), {whole.dtype(), whole.device()});
}

std::string describe(nn::Module& model, const TensorPlan& plan) {
  std::string text = fmt::format("sequence {}\n", plan.sequence);
  for (const TensorRule& rule : plan.rules) {
    text += fmt::format("{}: {}, joined {}\n", rule.modules, to_string(rule.cut), rule.joined);
  }
  for (const auto& [name, module] : model.modules()) {
    text += fmt::format("{}: {}", name, module->type_name());
    if (const auto* attention = dynamic_cast<const nn::MultiheadAttention*>(module)) {
      text += fmt::format(", {} heads, {} groups", attention->heads, attention->groups);
    }
    text += '\n';
  }
  ParameterWalk(model, [&](const std::string& name, nn::Parameter& p) {
    text += fmt::format("{}: {} {}\n", name, p.dtype(), p.shape());
  });
  return text;
}

Cutting::Cutting(nn::Module& model, const TensorPlan& plan, Communicator& ranks)
    : model_(model), sequence_(plan.sequence), ranks_(ranks) {
  for (const TensorRule& rule : plan.rules) apply(rule);
  resolve();
}

std::vector<HookHandle> Cutting::carry_out(Recipe* recipe) {
  if (recipe) {
    recipe->record([this] { cut_parameters(); });
  } else {
    cut_parameters();
  }
  for (const auto& change : changes_) change();
  sum_partial_gradients();
  return std::move(hooks_);
}

void Cutting::apply(const TensorRule& rule) {
  if (rule.joined && rule.cut != Cut::column && rule.cut != Cut::vocabulary) {
    raise<ValueError>(
        "[tensor_parallel] only results of column and vocabulary can be joined, got {} for '{}'",
        to_string(rule.cut), rule.modules);
  }
  const NamePatterns pattern({rule.modules});
  bool found = false;
  for (const auto& [name, module] : model_.modules()) {
    if (!pattern.fit(name)) continue;
    found = true;
    const auto [entry, is_new] = ruled_.emplace(name, rule.modules);
    if (!is_new) {
      raise<ValueError>("[tensor_parallel] module '{}' fits two rules, '{}' and '{}'", name,
                        entry->second, rule.modules);
    }
    apply(rule, name, *module);
  }
  if (found) return;
  std::string names;
  for (const auto& [name, _] : model_.modules()) names += name.empty() ? "" : " " + name;
  raise<ValueError>("[tensor_parallel] no module fits '{}' ({}); there are{}", rule.modules,
                    to_string(rule.cut), names);
}

void Cutting::apply(const TensorRule& rule, const std::string& name, nn::Module& module) {
  switch (rule.cut) {
    case Cut::column: {
      auto& linear = expect<nn::Linear>(rule.cut, name, module);
      enter(linear, name);
      column(linear, name, Parts::equal);
      if (rule.joined) join(linear, name);
      return;
    }
    case Cut::row:
      return row(expect<nn::Linear>(rule.cut, name, module), name);
    case Cut::feed_forward:
      return feed_forward(module, name);
    case Cut::heads:
      return heads(expect<nn::MultiheadAttention>(rule.cut, name, module), name);
    case Cut::vocabulary:
      return vocabulary(module, name, rule.joined);
    case Cut::sequence:
    case Cut::sequence_start:
      return sequence(module, name, rule.cut);
  }
}

void Cutting::column(nn::Linear& linear, const std::string& name, Parts parts) {
  cut(child(name, "weight"), linear.weight, 0, parts);
  if (linear.bias) cut(child(name, "bias"), *linear.bias, 0, parts);
}

void Cutting::row(nn::Linear& linear, const std::string& name) {
  cut(child(name, "weight"), linear.weight, 1, Parts::equal);
  leave(linear, name);
  if (linear.bias && sequence_) partial_.insert(child(name, "bias"));  // it comes after the door
}

void Cutting::feed_forward(nn::Module& module, const std::string& name) {
  std::vector<std::pair<std::string, nn::Linear*>> layers;
  for (const auto& [path, layer] : module.modules()) {
    if (typeid(*layer) != typeid(nn::Linear)) continue;
    layers.emplace_back(child(name, path), static_cast<nn::Linear*>(layer));
  }
  if (layers.size() < 2) {
    raise<ValueError>(
        "[tensor_parallel] feed_forward takes a module with two Linear layers or more, and '{}', a "
        "{}, has {}",
        name, module.type_name(), layers.size());
  }
  const auto [last_name, last] = layers.back();
  layers.pop_back();
  // What Dropout layers get is whole before the columns; after the sum it is, or a part of the
  // sequence. Hooks tell where a pass has come to.
  const auto parts = std::make_shared<AxisParts>();
  const auto now = [this, parts](HookList<Tensor(const Tensor&)>& list, const AxisParts& next) {
    replace(list, [parts, next](const Tensor& x) {
      *parts = next;
      return x;
    });
  };
  drop_parts(module, parts);
  enter(module, name);
  now(module.on_input, {});
  for (const auto& [path, layer] : layers) {
    if (layer->weight.size(0) != last->weight.size(1)) {
      raise<ValueError>(
          "[tensor_parallel] feed_forward takes layers of which all make what the last takes, got "
          "'{}' {} and '{}' {}",
          path, layer->weight.shape(), last_name, last->weight.shape());
    }
    column(*layer, path, Parts::equal);
    now(layer->on_output, {own(-1)});
  }
  row(*last, last_name);
  now(last->on_product, sequence_ ? AxisParts{own(kSequenceAxis)} : AxisParts{});
}

void Cutting::heads(nn::MultiheadAttention& attention, const std::string& name) {
  const int n = ranks_.size();
  if (attention.heads % n != 0 || attention.groups % n != 0) {
    raise<ValueError>(
        "[tensor_parallel] {} ranks cannot share the {} heads and {} groups of '{}' evenly", n,
        attention.heads, attention.groups, name);
  }
  enter(attention, name);
  column(attention.query, child(name, "query"), Parts::equal);
  column(attention.key, child(name, "key"), Parts::equal);
  column(attention.value, child(name, "value"), Parts::equal);
  row(attention.out, child(name, "out"));
  changes_.push_back([this, &attention, n] {
    attention.parts.push_back(own(1));  // of weights [batch, heads, ...]
    attention.heads /= n;
    attention.groups /= n;
  });
}

void Cutting::vocabulary(nn::Module& module, const std::string& name, bool joined) {
  if (typeid(module) == typeid(nn::Linear)) {
    auto& linear = static_cast<nn::Linear&>(module);
    enter(linear, name);
    column(linear, name, Parts::any);
    if (joined) {
      join(linear, name);
    } else {
      classes_[name] = linear.weight.size(0);
    }
    return;
  }
  auto& table = expect<nn::Embedding>(Cut::vocabulary, name, module);
  const int64_t count = table.weight.size(0);
  cut(child(name, "weight"), table.weight, 0, Parts::any);
  changes_.push_back([&table, count, first = slice_of(count, ranks_.rank(), ranks_.size()).first] {
    table.part = {first, count};
  });
  replace(table.on_output, [&ranks = ranks_, tag = name](const Tensor& rows) {
    return door::leave(rows, ranks, tag);
  });
}

void Cutting::sequence(nn::Module& module, const std::string& name, Cut cut) {
  if (!sequence_) {
    raise<ValueError>("[tensor_parallel] {} ('{}') is for plans with sequence = true",
                      to_string(cut), name);
  }
  for (const auto& [path, _] : module.parameters()) partial_.insert(child(name, path));
  drop_parts(module, std::make_shared<const AxisParts>(AxisParts{own(kSequenceAxis)}));
  if (cut == Cut::sequence) return;
  replace(module.on_input, [&ranks = ranks_, tag = name](const Tensor& x) {
    if (x.rank() <= kSequenceAxis || x.size(kSequenceAxis) % ranks.size() != 0) {
      raise<ShapeError>(
          "[tensor_parallel] {} ranks cannot share axis {}, the sequence, of {} evenly before '{}'",
          ranks.size(), kSequenceAxis, x.shape(), tag);
    }
    return door::part(x, kSequenceAxis, ranks, tag);
  });
}

void Cutting::cut(const std::string& name, const Tensor& parameter, int axis, Parts parts) {
  const int64_t size = parameter.size(axis);
  const bool equal = parts == Parts::equal;
  if (equal ? size % ranks_.size() != 0 : size < ranks_.size()) {
    raise<ValueError>("[tensor_parallel] axis {} of '{}' {} cannot be cut into {} {} parts", axis,
                      name, parameter.shape(), ranks_.size(), equal ? "equal" : "non-empty");
  }
  if (!axes_.emplace(name, axis).second) {
    raise<ValueError>("[tensor_parallel] two rules cut '{}'", name);
  }
}

void Cutting::replace(HookList<Tensor(const Tensor&)>& list, Replace f) {
  changes_.push_back([this, &list, f = std::move(f)] { hooks_.push_back(list.add(f)); });
}

void Cutting::enter(nn::Module& module, const std::string& name) {
  replace(module.on_input, [&ranks = ranks_, sequence = sequence_, tag = name](const Tensor& x) {
    return sequence ? door::gather(x, kSequenceAxis, ranks, tag) : door::enter(x, ranks, tag);
  });
}

void Cutting::leave(nn::Linear& linear, const std::string& name) {
  replace(linear.on_product, [&ranks = ranks_, sequence = sequence_, tag = name](const Tensor& y) {
    return sequence ? door::scatter(y, kSequenceAxis, ranks, tag) : door::leave(y, ranks, tag);
  });
}

void Cutting::join(nn::Linear& linear, const std::string& name) {
  const int64_t size = linear.weight.size(0);
  replace(linear.on_output, [&ranks = ranks_, size, tag = name](const Tensor& y) {
    return door::join(y, -1, size, ranks, tag);
  });
}

/// Dropout layers in `module` get `parts` of what one rank would drop.
void Cutting::drop_parts(nn::Module& module, std::shared_ptr<const AxisParts> parts) {
  for (const auto& [_, layer] : module.modules()) {
    if (auto* dropout = dynamic_cast<nn::Dropout*>(layer)) {
      changes_.push_back([dropout, parts] { dropout->parts.push_back(parts); });
    }
  }
}

/// Finds the slice of each parameter, under all its names, which must agree.
void Cutting::resolve() {
  std::map<const TensorBody*, std::string> first_names;
  ParameterWalk(model_, [&](const std::string& name, nn::Parameter& p) {
    ParameterSlice& slice = slices_[name];
    slice.whole = p.shape();
    if (const auto axis = axes_.find(name); axis != axes_.end()) {
      const Slice own = slice_of(p.size(axis->second), ranks_.rank(), ranks_.size());
      slice = {p.shape(), axis->second, own.first, own.count};
      partial_.erase(name);  // its gradient is this rank's alone
    }
    const std::string& first = first_names.emplace(&p.body(), name).first->second;
    if (slices_[first] != slice || partial_.contains(first) != partial_.contains(name)) {
      raise<ValueError>(
          "[tensor_parallel] '{}' and '{}' are one parameter, and need rules that cut it alike",
          first, name);
    }
  });
}

void Cutting::cut_parameters() {
  std::map<const TensorBody*, Tensor> replaced;
  std::vector<Tensor> old;  // alive until the end, so that no address is used for two of them
  ParameterWalk(model_, [&](const std::string& name, nn::Parameter& p) {
    const ParameterSlice& slice = slices_[name];
    if (!slice.axis) return;
    Tensor& fresh = replaced[&p.body()];
    if (!fresh.defined()) {
      old.push_back(p);
      fresh = cut_out(p, slice);
      require_grad(fresh, p.requires_grad());
      if (p.requires_grad()) accumulator(fresh).part_of_whole = true;
    }
    static_cast<Tensor&>(p) = fresh;
  });
}

void Cutting::sum_partial_gradients() {
  for (const auto& [name, parameter] : model_.parameters()) {
    if (!partial_.contains(name) || !parameter.requires_grad()) continue;
    hooks_.push_back(on_gradient(parameter, [&ranks = ranks_, tag = name](const Tensor& grad) {
      const Tensor sum = dense_copy(grad);
      ranks.all_reduce(sum, Reduce::sum, tag).wait();
      return sum;
    }));
  }
}

}  // namespace capstan::distributed

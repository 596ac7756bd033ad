#include "nn/module.h"

#include <functional>
#include <unordered_map>

#include "autograd/elementwise.h"
#include "core/raise.h"

namespace capstan::nn {

namespace {

/// Walks a tree of modules and calls back for each member with its full name.
class Walk : public MemberVisitor {
 public:
  std::function<void(const std::string&, Parameter&)> on_parameter = [](auto&, auto&) {};
  std::function<void(const std::string&, Buffer&)> on_buffer = [](auto&, auto&) {};
  std::function<void(const std::string&, Module&)> on_module = [](auto&, auto&) {};

  void run(Module& root) {
    on_module("", root);
    root.visit_members(*this);
  }

  void parameter(const std::string& name, Parameter& p) override {
    on_parameter(prefix_ + name, p);
  }
  void buffer(const std::string& name, Buffer& b) override { on_buffer(prefix_ + name, b); }
  void module(const std::string& name, Module& child) override {
    on_module(prefix_ + name, child);
    const std::string before = std::exchange(prefix_, prefix_ + name + ".");
    child.visit_members(*this);
    prefix_ = before;
  }

 private:
  std::string prefix_;
};

/// Calls change(old, buffer) once for each distinct parameter, with null, and buffer, and gives all
/// its handles the result.
void replace_tensors(Module& module,
                     const std::function<Tensor(const Tensor& old, const Buffer* buffer)>& change) {
  std::unordered_map<const TensorBody*, Tensor> replaced;
  const auto replace = [&](const Tensor& old, const Buffer* buffer) {
    auto [entry, is_new] = replaced.try_emplace(&old.body());
    if (is_new) entry->second = change(old, buffer);
    return entry->second;
  };
  // The old tensors stay alive until the end, so that no address is used for two of them.
  std::vector<Tensor> old;
  Walk walk;
  walk.on_parameter = [&](const std::string&, Parameter& p) {
    old.push_back(p);
    static_cast<Tensor&>(p) = replace(p, nullptr);
  };
  walk.on_buffer = [&](const std::string&, Buffer& b) {
    old.push_back(b);
    static_cast<Tensor&>(b) = replace(b, &b);
  };
  walk.run(module);
}

/// `fresh` as a leaf that requires a gradient if `old` did.
Tensor leaf_like(const Tensor& old, Tensor fresh) {
  require_grad(fresh, old.requires_grad());
  return fresh;
}

/// Gives floating point members the dtype for a buffer, or for a parameter (null); others count or
/// index, and keep theirs.
void convert(Module& module, const std::function<Dtype(const Buffer* buffer)>& dtype_of) {
  replace_tensors(module, [&](const Tensor& old, const Buffer* buffer) {
    if (!is_floating(old.dtype())) return old;
    Tensor converted = empty(old.shape(), {dtype_of(buffer), old.device()});
    copy_elements(old, converted);
    return leaf_like(old, converted);
  });
}

}  // namespace

Parameter::Parameter(const Tensor& value) : Tensor(detach(value)) { require_grad(*this); }

NamedTensors Module::parameters() {
  NamedTensors found;
  Walk walk;
  walk.on_parameter = [&](const std::string& name, Parameter& p) {
    for (const auto& [_, known] : found) {
      if (known.same(p)) return;
    }
    found.emplace_back(name, p);
  };
  walk.run(*this);
  return found;
}

std::vector<std::pair<std::string, Buffer>> Module::buffers() {
  std::vector<std::pair<std::string, Buffer>> found;
  Walk walk;
  walk.on_buffer = [&](const std::string& name, Buffer& b) {
    for (const auto& [_, known] : found) {
      if (known.same(b)) return;
    }
    found.emplace_back(name, b);
  };
  walk.run(*this);
  return found;
}

std::vector<std::pair<std::string, Module*>> Module::modules() {
  std::vector<std::pair<std::string, Module*>> found;
  Walk walk;
  walk.on_module = [&](const std::string& name, Module& m) { found.emplace_back(name, &m); };
  walk.run(*this);
  return found;
}

int64_t Module::parameter_count() {
  int64_t count = 0;
  for (const auto& [_, parameter] : parameters()) count += parameter.numel();
  return count;
}

void Module::zero_grad() {
  for (const auto& [_, parameter] : parameters()) {
    if (parameter.requires_grad()) capstan::zero_grad(parameter);
  }
}

void Module::train(bool on) {
  for (const auto& [_, module] : modules()) module->training_ = on;
}

void Module::to(Device device) {
  replace_tensors(*this, [&](const Tensor& old, const Buffer*) {
    Tensor moved = empty(old.shape(), {old.dtype(), device});
    copy_elements(old, moved);
    return leaf_like(old, moved);
  });
}

void Module::to(Dtype dtype) {
  convert(*this, [&](const Buffer* buffer) {
    // In 16 bits, what each step adds to a running average would be lost.
    return buffer && buffer->policy == BufferPolicy::averaged ? compute_dtype(dtype) : dtype;
  });
}

void Module::to(Dtype parameters, Dtype buffers) {
  check_floating("to", parameters);
  check_floating("to", buffers);
  convert(*this, [&](const Buffer* buffer) { return buffer ? buffers : parameters; });
}

void tie(Parameter& a, Parameter& b) {
  if (a.shape() != b.shape()) {
    raise<ShapeError>("[tie] parameters must have equal shapes, got {} and {}", a.shape(),
                      b.shape());
  }
  b = a;
}

namespace detail {

namespace {

thread_local Module* running = nullptr;  // the innermost module that has a label

std::string name_in(Module* caller, Module& module) {
  if (caller) {
    for (const auto& [name, member] : caller->modules()) {
      if (member == &module && member != caller) return name;
    }
  }
  return module.type_name();
}

}  // namespace

ModuleLabel::ModuleLabel(Module& module)
    : caller_(running), label_(name_in(running, module), std::source_location()) {
  running = &module;
}
ModuleLabel::~ModuleLabel() { running = caller_; }

void unshare(Module& copy) {
  replace_tensors(copy, [](const Tensor& old, bool) { return leaf_like(old, dense_copy(old)); });
}

std::string next_name(std::string_view& names) {
  const size_t comma = names.find(',');
  std::string_view name = names.substr(0, comma);
  names.remove_prefix(comma == std::string_view::npos ? names.size() : comma + 1);
  name.remove_prefix(std::min(name.find_first_not_of(" \n\t"), name.size()));
  return std::string(name.substr(0, name.find_last_not_of(" \n\t") + 1));
}

}  // namespace detail
}  // namespace capstan::nn

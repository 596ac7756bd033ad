// Defines Module, Parameter and Buffer: what models are made of.
//
// A module is a plain struct of handles. One line, CAPSTAN_MODULE, lists what it owns and gives it
// operator() with hooks, names, state, clone(), to(), train() and eval():
//
//   struct Mlp : nn::Module {
//     nn::Linear in{784, 512}, out{512, 10};
//     CAPSTAN_MODULE(Mlp, in, out)
//     Tensor forward(const Tensor& x) { return out(relu(in(x))); }
//   };
//
// (At namespace or class scope: C++ allows no member templates in a function's local struct.)
//
// A member may be a Parameter, a Buffer, a module, or a std::optional, ModuleList (std::vector) or
// ModuleDict (std::map by name) of these; or a struct that names its own members, in a function
// visit_members(MemberVisitor&), as if they were the module's. The order of the list is the order
// of the parameters everywhere: in checkpoints, buckets and shards. Copying a module copies its
// handles: both use the same parameters. clone() copies the numbers too.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "autograd/anomaly.h"
#include "autograd/node.h"

namespace capstan::nn {

/// A tensor that training changes: a leaf that requires a gradient.
struct Parameter : Tensor {
  explicit Parameter(const Tensor& value);
};

/// How ranks treat a buffer in data-parallel training.
enum class BufferPolicy {
  replicated,  // equal on all ranks by construction, like a mask
  averaged,    // each rank's own estimate of the same, like running statistics
  local,       // each rank's own, never saved
};

/// A tensor that belongs to a module but is not trained.
struct Buffer : Tensor {
  Buffer(const Tensor& value, BufferPolicy policy) : Tensor(value), policy(policy) {}
  BufferPolicy policy;
};

class Module;

/// Members of one type under numbers ("blocks.2.weight") or names ("heads.left.weight"): a plain
/// vector or map that a module's list may name. Modules of several types: Sequential.
template <class Layer>
using ModuleList = std::vector<Layer>;
template <class Layer>
using ModuleDict = std::map<std::string, Layer>;

/// Receives the members of a module, in the order of its list.
class MemberVisitor {
 public:
  virtual ~MemberVisitor() = default;
  virtual void parameter(const std::string& name, Parameter& parameter) = 0;
  virtual void buffer(const std::string& name, Buffer& buffer) = 0;
  virtual void module(const std::string& name, Module& module) = 0;
};

namespace detail {

/// A Label for a module that runs: its name in the module that called it ("blocks.2"), or its type.
class ModuleLabel {
 public:
  explicit ModuleLabel(Module& module);
  ~ModuleLabel();
  ModuleLabel(const ModuleLabel&) = delete;
  ModuleLabel& operator=(const ModuleLabel&) = delete;

 private:
  Module* caller_;
  Label label_;
};

/// A tensor after the hooks, each of which may put another in its place; anything else as it is.
template <class T>
decltype(auto) replaced([[maybe_unused]] const HookList<Tensor(const Tensor&)>& hooks, T&& value) {
  if constexpr (std::is_convertible_v<std::remove_reference_t<T>*, const Tensor*>) {
    Tensor result = value;
    hooks.for_each([&](const auto& hook) { result = hook(result); });
    return result;
  } else {
    return std::forward<T>(value);
  }
}

}  // namespace detail

/// Base of all modules.
class Module {
 public:
  virtual ~Module() = default;

  /// The name of the struct: "Linear".
  virtual const char* type_name() const = 0;
  /// Shows `visitor` the members. Written by CAPSTAN_MODULE; containers write it themselves.
  virtual void visit_members(MemberVisitor& visitor) = 0;

  /// All parameters below this module with their names ("blocks.2.in.weight"), each once: a tied
  /// parameter appears under its first name.
  NamedTensors parameters();
  /// All buffers, likewise.
  std::vector<std::pair<std::string, Buffer>> buffers();
  /// This module ("") and all below it, parents before children.
  std::vector<std::pair<std::string, Module*>> modules();
  /// The number of elements in parameters().
  int64_t parameter_count();

  /// Forgets the gradients of all parameters.
  void zero_grad();
  /// Sets the mode of this module and all below it: dropout drops in training only.
  void train(bool on = true);
  void eval() { train(false); }
  bool training() const { return training_; }

  /// Moves or converts parameters and buffers, in place. Do it before an optimizer or a strategy is
  /// attached: gradients and hooks do not move along.
  void to(Device device);
  /// Integers stay as they are; averaged buffers, running statistics, are float32 where `dtype` has
  /// 16 bits.
  void to(Dtype dtype);
  /// The same, with a dtype of their own for all floating point buffers. Throws DtypeError, before
  /// anything is changed, for a dtype that is not floating point.
  void to(Dtype parameters, Dtype buffers);

  /// Run around forward whenever the module is called. `outputs` holds the result if it is a
  /// tensor.
  HookList<void(Module&)> before_forward;
  HookList<void(Module&, std::span<const Tensor> outputs)> after_forward;
  /// Each gives the tensor that takes the place of another: of every tensor that forward is called
  /// with, or of its result if that is one. For strategies that share a module's work among ranks:
  /// they change what is computed, so copies of the module share them.
  HookList<Tensor(const Tensor&)> on_input, on_output;

 protected:
  Module() = default;
  // A copy shares parameters, but hooks that watch belong to the module they were added to.
  Module(const Module& other)
      : on_input(other.on_input), on_output(other.on_output), training_(other.training_) {}
  Module& operator=(const Module& other) {
    on_input = other.on_input;
    on_output = other.on_output;
    training_ = other.training_;
    return *this;
  }

  /// Calls `forward` between the hooks. Inside a DetectAnomaly, messages name the module.
  template <class Forward, class... Arguments>
  auto call(Forward&& forward, Arguments&&... arguments) {
    std::optional<detail::ModuleLabel> label;
    if (capstan::detail::watching) label.emplace(*this);
    if (before_forward.empty() && after_forward.empty() && on_input.empty() && on_output.empty()) {
      return forward(std::forward<Arguments>(arguments)...);
    }
    before_forward.for_each([&](const auto& hook) { hook(*this); });
    auto result = forward(detail::replaced(on_input, std::forward<Arguments>(arguments))...);
    std::span<const Tensor> outputs;
    if constexpr (std::is_convertible_v<decltype(&result), const Tensor*>) {
      result = detail::replaced(on_output, result);
      outputs = {&result, 1};
    }
    after_forward.for_each([&](const auto& hook) { hook(*this, outputs); });
    return result;
  }

 private:
  bool training_ = true;
};

/// Makes `b` the parameter `a`: one parameter with two names. Throws ShapeError if their shapes
/// differ.
void tie(Parameter& a, Parameter& b);

namespace detail {

/// Gives the parameters and buffers of a freshly copied module numbers of their own, keeping ties.
void unshare(Module& copy);

template <class T>
struct is_list : std::false_type {};
template <class T>
struct is_list<std::vector<T>> : std::true_type {};
template <class T>
struct is_dict : std::false_type {};
template <class T>
struct is_dict<std::map<std::string, T>> : std::true_type {};
template <class T>
struct is_optional : std::false_type {};
template <class T>
struct is_optional<std::optional<T>> : std::true_type {};

template <class Member>
void visit_member(MemberVisitor& visitor, const std::string& name, Member& member) {
  if constexpr (std::is_same_v<Member, Parameter>) {
    visitor.parameter(name, member);
  } else if constexpr (std::is_same_v<Member, Buffer>) {
    visitor.buffer(name, member);
  } else if constexpr (is_optional<Member>::value) {
    if (member) visit_member(visitor, name, *member);
  } else if constexpr (is_list<Member>::value) {
    for (size_t i = 0; i < member.size(); ++i) {
      visit_member(visitor, name + "." + std::to_string(i), member[i]);
    }
  } else if constexpr (is_dict<Member>::value) {
    for (auto& [key, value] : member) visit_member(visitor, name + "." + key, value);
  } else if constexpr (std::is_base_of_v<Module, Member>) {
    visitor.module(name, member);
  } else {
    static_assert(
        requires { member.visit_members(visitor); },
        "CAPSTAN_MODULE lists parameters, buffers, modules, optionals, vectors or maps "
        "of them, and structs with visit_members()");
    member.visit_members(visitor);
  }
}

/// The next name of a list "a, b, c", which is cut off the front.
std::string next_name(std::string_view& names);

template <class... Members>
void visit_members(MemberVisitor& visitor, [[maybe_unused]] std::string_view names,
                   Members&... members) {
  (visit_member(visitor, next_name(names), members), ...);
}

}  // namespace detail
}  // namespace capstan::nn

/// Lists the members of module `Type`; see the top of nn/module.h. The list may be empty.
#define CAPSTAN_MODULE(Type, ...)                                                           \
  const char* type_name() const override { return #Type; }                                  \
  void visit_members(::capstan::nn::MemberVisitor& visitor) override {                      \
    ::capstan::nn::detail::visit_members(visitor, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__); \
  }                                                                                         \
  /** A module of the same kind with its own copies of all numbers. */                      \
  Type clone() const {                                                                      \
    Type copy(*this);                                                                       \
    ::capstan::nn::detail::unshare(copy);                                                   \
    return copy;                                                                            \
  }                                                                                         \
  template <class... Arguments>                                                             \
  auto operator()(Arguments&&... arguments) {                                               \
    return this->call(                                                                      \
        [this]<class... Replaced>(Replaced&&... replaced) {                                 \
          return this->forward(std::forward<Replaced>(replaced)...);                        \
        },                                                                                  \
        std::forward<Arguments>(arguments)...);                                             \
  }

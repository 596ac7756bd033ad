// Defines Operation, one row of the table of differentiable operations, and how its error paths are
// written down. Read next: operation_checks.h (what is checked), then the rows in *_operations.h.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/tensor.h"

namespace capstan::testing {

using Tensors = std::vector<Tensor>;
using Function = std::function<Tensor(const Tensors&)>;

/// A call that must throw: problem() is empty if it did as it should.
struct Failure {
  std::function<std::string(const std::string& operation)> problem;
};

/// `attempt` must throw an E whose message starts with "[operation]" and contains `text`.
template <class E>
Failure fails(const std::string& text, const std::function<Tensor()>& attempt) {
  return {[=](const std::string& operation) -> std::string {
    try {
      attempt();
    } catch (const E& error) {
      const std::string message = error.what();
      if (!message.starts_with("[" + operation + "]")) return "does not name itself: " + message;
      if (message.find(text) == std::string::npos) return "does not say '" + text + "': " + message;
      return {};
    } catch (const std::exception& error) {
      return std::string("is of another type: ") + error.what();
    }
    return "nothing was thrown where it should say '" + text + "'";
  }};
}

struct Operation {
  std::string name;                          // as in the header
  std::map<std::string, Function> variants;  // by the part after the dot in the golden file
  std::vector<Failure> failures;             // its error paths; empty only if it has none
  bool on_meta = true;                       // false: the shape of the result depends on values
  bool has_second = true;                    // false: gradients of gradients are refused
};

/// The variants of an operation that has one.
inline std::map<std::string, Function> only(const Function& function) { return {{"", function}}; }

using UnaryFunction = Tensor (*)(const Tensor&);
using BinaryFunction = Tensor (*)(const Tensor&, const Tensor&);

inline std::map<std::string, Function> only(UnaryFunction f) {
  return only([f](const Tensors& x) { return f(x[0]); });
}
inline std::map<std::string, Function> only(BinaryFunction f) {
  return only([f](const Tensors& x) { return f(x[0], x[1]); });
}

// Tensors for error paths.
inline Tensor of(const Shape& shape, Dtype dtype = Dtype::float32, Device device = {}) {
  return zeros(shape, {dtype, device});
}
inline Tensor whole(const Shape& shape) { return of(shape, Dtype::int64); }
inline Tensor elsewhere(const Shape& shape, Dtype dtype = Dtype::float32) {
  return of(shape, dtype, Device::meta());
}

}  // namespace capstan::testing

// Defines DetectAnomaly, which finds the operation that first made a NaN, in forward or in
// backward, and Label, which gives parts of a program the names that its message shows.
//
//   DetectAnomaly watch;
//   Label part("encoder");
//   backward(log(x - x));
//
//   [log] its gradient of input 0, float32 [3], holds NaN, though that of its result does not
//     it was called in: 'encoder' (model.cc:31)
//     call stack: addr2line -Cfpe ./train 0x51f2a 0x4c1b7 ...
//
// The stack is noted as addresses, which is cheap; the printed command turns them into functions,
// and into lines in a program built with -g.
#pragma once

#include <memory>
#include <source_location>
#include <string>
#include <vector>

#include "core/tensor.h"

namespace capstan {

/// Names what runs on this thread while it lives; nests. A module does so itself (nn/module.h).
class Label {
 public:
  /// An empty place is left out.
  explicit Label(std::string name, std::source_location place = std::source_location::current());
  ~Label();
  Label(const Label&) = delete;
  Label& operator=(const Label&) = delete;
};

/// While it lives, each operation on this thread notes where it was called, and a result or a
/// gradient with NaN where the inputs of the computation had none is a GradientError that names the
/// operation and that place. Operations recorded before, or after, are checked without the place.
/// Slow: it looks at every element.
class DetectAnomaly {
 public:
  /// With `infinities`, those count as NaN does. (They are often meant: a mask of -inf.)
  explicit DetectAnomaly(bool infinities = false);
  ~DetectAnomaly();
  DetectAnomaly(const DetectAnomaly&) = delete;
  DetectAnomaly& operator=(const DetectAnomaly&) = delete;

  bool infinities() const { return infinities_; }

 private:
  bool infinities_;
  const DetectAnomaly* outer_;
};

/// Where an operation was called.
struct CallSite {
  std::string labels;         // "'encoder' (model.cc:31) > 'attention' (model.cc:54)"
  std::vector<void*> frames;  // return addresses, the innermost first
};

namespace detail {

extern constinit thread_local const DetectAnomaly* watching;  // the innermost one, or null

std::unique_ptr<const CallSite> current_call_site();
/// The lines of a message that tell of `site`; for null, how to get one.
std::string to_string(const CallSite* site);
/// True if what is watched for is in `tensor`. Never while the formula of a node runs: what that
/// computes on its way is judged by the gradients that it gives.
bool has_anomaly(const Tensor& tensor);
/// Throws GradientError for an anomaly in `result` that `inputs` do not hold.
[[noreturn]] void anomaly_in_result(const char* operation, const Tensor& result);
template <class Inputs>
void check_result(const char* operation, const Tensor& result, const Inputs& inputs) {
  if (!has_anomaly(result)) return;
  for (const Tensor* input : inputs) {
    if (input && has_anomaly(*input)) return;
  }
  anomaly_in_result(operation, result);
}

}  // namespace detail
}  // namespace capstan

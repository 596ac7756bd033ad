// Defines NanCheck, which finds gradients that are NaN or infinite while it is still known whose
// they are: after a sum over the ranks all of them have them.
#pragma once

#include <string>

#include "core/tensor.h"
#include "distributed/comm/communicator.h"

namespace capstan::distributed {

class NanCheck {
 public:
  /// Looks through gradients of this rank, by their parameters' names, before they are sent. One
  /// that is not finite is noted and filled with zeros, so that the other ranks' gradients, and
  /// what a hook keeps, stay clean.
  void look(const NamedTensors& gradients);

  /// Throws GradientError on every rank, with the same text, if a rank has noted something; it
  /// names, for each such rank, the first parameter. A collective; forgets what was noted.
  void verdict(Communicator& communicator);

 private:
  std::string first_;  // "'in.weight' (NaN)"
  int64_t more_ = 0;
};

}  // namespace capstan::distributed

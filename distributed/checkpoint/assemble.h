// Defines assemble(), which puts whole tensors together from what the ranks hold.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "distributed/checkpoint/piece.h"
#include "distributed/comm/communicator.h"

namespace capstan::distributed {

/// Calls `visit` with each of the tensors named, in that order, on every rank: one of them is in
/// memory at a time. Of elements that several ranks hold, one rank's are taken. A collective; all
/// ranks name the same. Throws SharedError if pieces are not as plan_save() wants them, or of a
/// tensor named there are none.
void assemble(const Pieces& held, std::span<const std::string> names, Communicator& ranks,
              const std::function<void(const std::string& name, const Tensor& whole)>& visit);

}  // namespace capstan::distributed

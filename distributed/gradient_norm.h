// Defines what a gradient norm needs of ranks that hold different parts of a model.
#pragma once

#include <string_view>

#include "core/exact_sum.h"
#include "distributed/comm/communicator.h"

namespace capstan::distributed {

/// The sum of all ranks' sums, exact, and so the same however the numbers are spread over the
/// ranks. A collective that waits until it is done.
ExactSum sum_over(const ExactSum& mine, Communicator& communicator, std::string_view tag);

}  // namespace capstan::distributed

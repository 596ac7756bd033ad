// Defines combine(), the arithmetic of reductions: element by element, on one thread.
#pragma once

#include <cstdint>

#include "core/dtype.h"
#include "distributed/comm/communicator.h"

namespace capstan::distributed {

/// out[i] = a[i] op b[i]; `out` may be `a` or `b`. For a mean, the sum.
void combine(Reduce op, Dtype dtype, const void* a, const void* b, void* out, int64_t count);

}  // namespace capstan::distributed

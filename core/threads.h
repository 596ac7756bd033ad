// Defines parallel_for, the one way in which kernels use several cores.
//
// Work is cut into blocks whose size the caller fixes; threads take whole blocks. So the result of
// a kernel never depends on the number of threads, as long as blocks write apart from each other or
// are combined in block order.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>

namespace capstan {

/// Threads that parallel_for may use, the caller included. Starts as CAPSTAN_THREADS or the number
/// of cores this process may run on.
int thread_count();
/// Throws ValueError below 1 and above 1024. Takes effect with the next parallel_for.
void set_thread_count(int count);

namespace detail {
void run_blocks(int64_t blocks, const std::function<void(int64_t)>& block);
}

/// Calls body(begin, end) for [0, block), [block, 2*block), ... up to `count`, on several threads.
/// The first exception thrown by a block is thrown again here. Nested calls run on the calling
/// thread.
template <class Body>
void parallel_for(int64_t count, int64_t block, const Body& body) {
  if (count <= block) {
    if (count > 0) body(int64_t{0}, count);
    return;
  }
  const auto run = [&](int64_t i) { body(i * block, std::min(count, (i + 1) * block)); };
  detail::run_blocks((count + block - 1) / block, std::cref(run));  // by reference: no allocation
}

}  // namespace capstan

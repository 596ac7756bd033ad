// Rows chosen by index, and their gradient: what an embedding is made of.
#include <cstring>

#include "core/cpu/cpu_backend.h"
#include "core/cpu/loop.h"
#include "core/formulas.h"

namespace capstan {
namespace {

/// Elements of one row of a dense tensor [n, ...].
int64_t row_size(const Tensor& rows) { return rows.size(0) ? rows.numel() / rows.size(0) : 0; }

}  // namespace

void CpuBackend::take_rows(const Tensor& in, const Tensor& indices, const Tensor& out) {
  const int64_t bytes = row_size(in) * item_size(in.dtype());
  if (bytes == 0) return;
  visit_dtype(in.dtype(), [&]<class T>() { out.mutable_data<T>(); });
  const auto* from = static_cast<const char*>(in.address());
  auto* to = static_cast<char*>(out.address());
  const int64_t* index = indices.data<int64_t>();
  parallel_for(indices.numel(), std::max<int64_t>(1, cpu::kGrain * 4 / bytes),
               [&](int64_t begin, int64_t end) {
                 for (int64_t i = begin; i < end; ++i) {
                   std::memcpy(to + i * bytes, from + index[i] * bytes, bytes);
                 }
               });
}

void CpuBackend::add_rows(const Tensor& rows, const Tensor& indices, const Tensor& out) {
  const int64_t width = row_size(out);
  const int64_t count = indices.numel();
  if (width == 0 || count == 0) return;
  visit_dtype(out.dtype(), [&]<class T>() {
    const T* from = rows.data<T>();
    T* to = out.mutable_data<T>();
    const int64_t* index = indices.data<int64_t>();
    // Rows may repeat, so threads share the columns and each takes all rows in order.
    const int64_t columns = std::max<int64_t>(64, cpu::kGrain / count);
    parallel_for(width, columns, [&](int64_t begin, int64_t end) {
      for (int64_t i = 0; i < count; ++i) {
        cpu::map_row(end - begin, to + index[i] * width + begin, 1, from + i * width + begin, 1,
                     to + index[i] * width + begin, 1, formulas::Add{});
      }
    });
  });
}

}  // namespace capstan

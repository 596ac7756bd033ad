// The order of the elements of rows: what sorting and the largest k are made of.
#include <numeric>

#include "core/cpu/cpu_backend.h"
#include "core/cpu/fold.h"
#include "core/cpu/loop.h"
#include "core/cpu/scratch.h"

namespace capstan {
namespace {

/// True if a comes before b in ascending order, NaN last.
template <class T>
bool is_less(T a, T b) {
  return a < b || (cpu::is_nan(b) && !cpu::is_nan(a));
}

}  // namespace

void CpuBackend::order(const Tensor& in, bool descending, const Tensor& positions) {
  const int64_t rows = in.size(0), length = in.size(1), wanted = positions.size(1);
  if (wanted == 0) return;
  int64_t* const out = positions.mutable_data<int64_t>();
  visit_dtype(in.dtype(), [&]<class T>() {
    const T* const x = in.data<T>();
    parallel_for(rows, std::max<int64_t>(1, 4096 / length), [&](int64_t begin, int64_t end) {
      const cpu::Scratch<int64_t> room(length);
      int64_t* const first = room.data();
      for (int64_t i = begin; i < end; ++i) {
        const T* const row = x + i * length;
        // Equals in the order of their positions: so no two are equal, and any algorithm is stable.
        const auto comes_before = [=](int64_t a, int64_t b) {
          const T left = row[descending ? b : a], right = row[descending ? a : b];
          return is_less(left, right) || (!is_less(right, left) && a < b);
        };
        std::iota(first, first + length, int64_t{0});
        if (wanted == length) {
          std::sort(first, first + length, comes_before);
        } else {
          std::partial_sort(first, first + wanted, first + length, comes_before);
        }
        std::copy_n(first, wanted, out + i * wanted);
      }
    });
  });
}

}  // namespace capstan

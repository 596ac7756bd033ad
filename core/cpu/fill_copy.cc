// Constants, and copies between any two layouts and dtypes.
#include <cstring>

#include "core/cpu/cpu_backend.h"
#include "core/cpu/loop.h"

namespace capstan {

void CpuBackend::fill(const Tensor& out, double value) {
  visit_dtype(out.dtype(), [&]<class T>() {
    T* y = out.mutable_data<T>();
    const T same = static_cast<T>(value);
    cpu::for_each_row<1>({&out.layout()}, [&](int64_t n, auto at, auto step) {
      cpu::map_row(n, &same, 0, y + at[0], step[0], [](T x) { return x; });
    });
  });
}

void CpuBackend::copy(const Tensor& in, const Tensor& out) {
  visit_dtype(in.dtype(), [&]<class From>() {
    visit_dtype(out.dtype(), [&]<class To>() {
      const From* x = in.data<From>();
      To* y = out.mutable_data<To>();
      cpu::for_each_row<2>({&out.layout(), &in.layout()}, [&](int64_t n, auto at, auto step) {
        if constexpr (std::is_same_v<From, To>) {
          if (step[0] == 1 && step[1] == 1) {
            std::memmove(y + at[0], x + at[1], n * sizeof(To));
            return;
          }
        }
        cpu::map_row(n, x + at[1], step[1], y + at[0], step[0],
                     [](From value) { return static_cast<To>(value); });
      });
    });
  });
}

}  // namespace capstan

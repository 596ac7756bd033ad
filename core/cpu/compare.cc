// Comparisons, and the choice between two tensors by a condition.
#include "core/cpu/cpu_backend.h"
#include "core/cpu/loop.h"
#include "core/formulas.h"

namespace capstan {

void CpuBackend::compare(Compare op, const Tensor& a, const Tensor& b, const Tensor& out) {
  bool* z = out.mutable_data<bool>();
  formulas::visit(op, [&](auto f) {
    visit_dtype(a.dtype(), [&]<class T>() {
      const T* x = a.data<T>();
      const T* y = b.data<T>();
      cpu::for_each_row<3>({&out.layout(), &a.layout(), &b.layout()},
                           [&](int64_t n, auto at, auto step) {
                             using C = compute_type<T>;
                             cpu::map_row(n, x + at[1], step[1], y + at[2], step[2], z + at[0],
                                          step[0], [f](T x, T y) { return f(C{x}, C{y}); });
                           });
    });
  });
}

void CpuBackend::where(const Tensor& condition, const Tensor& a, const Tensor& b,
                       const Tensor& out) {
  const bool* c = condition.data<bool>();
  visit_dtype(out.dtype(), [&]<class T>() {
    const T* x = a.data<T>();
    const T* y = b.data<T>();
    T* z = out.mutable_data<T>();
    cpu::for_each_row<4>(
        {&out.layout(), &condition.layout(), &a.layout(), &b.layout()},
        [&](int64_t n, auto at, auto step) {
          const auto choose = [&](auto so, auto sc, auto sa, auto sb) {
            for (int64_t j = 0; j < n; ++j) {
              z[at[0] + j * so] = c[at[1] + j * sc] ? x[at[2] + j * sa] : y[at[3] + j * sb];
            }
          };
          if (std::all_of(step.begin(), step.end(), [](int64_t s) { return s == 1; })) {
            constexpr std::integral_constant<int64_t, 1> one;
            choose(one, one, one, one);
          } else {
            choose(step[0], step[1], step[2], step[3]);
          }
        });
  });
}

}  // namespace capstan

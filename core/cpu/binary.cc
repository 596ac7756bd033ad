// Two-input element-wise functions: formulas.h in the loop of loop.h.
#include "core/cpu/cpu_backend.h"
#include "core/cpu/loop.h"
#include "core/formulas.h"

namespace capstan {
namespace {

template <class F, class T>
void run(const Tensor& a, const Tensor& b, const Tensor& out, F f) {
  const T* x = a.data<T>();
  const T* y = b.data<T>();
  T* z = out.mutable_data<T>();
  using C = compute_type<T>;
  cpu::for_each_row<3>({&out.layout(), &a.layout(), &b.layout()},
                       [&](int64_t n, auto at, auto step) {
                         cpu::map_row(n, x + at[1], step[1], y + at[2], step[2], z + at[0], step[0],
                                      [f](T x, T y) { return static_cast<T>(f(C{x}, C{y})); });
                       });
}

}  // namespace

void CpuBackend::binary(Binary op, const Tensor& a, const Tensor& b, const Tensor& out) {
  formulas::visit(op, [&]<class F>(F f) {
    visit_dtype(a.dtype(), [&]<class T>() {
      if constexpr (!F::floating_only || std::is_floating_point_v<compute_type<T>>) {
        run<F, T>(a, b, out, f);
      } else {
        wrong_dtype("binary", "floating point", a.dtype());
      }
    });
  });
}

}  // namespace capstan

// One-input element-wise functions: formulas.h in the loop of loop.h, vector_math.h where it has a
// faster form.
#include "core/cpu/cpu_backend.h"
#include "core/cpu/loop.h"
#include "core/cpu/vector_math.h"
#include "core/formulas.h"

namespace capstan {
namespace {

template <class F, class T>
void run(const Tensor& in, const Tensor& out, F f) {
  const T* x = in.data<T>();
  T* y = out.mutable_data<T>();
  using C = compute_type<T>;
  cpu::for_each_row<2>({&out.layout(), &in.layout()}, [&](int64_t n, auto at, auto step) {
    if constexpr (cpu::has_block_form<F, C>) {
      cpu::transform<F>(n, x + at[1], step[1], y + at[0], step[0]);
    } else {
      cpu::map_row(n, x + at[1], step[1], y + at[0], step[0],
                   [f](T x) { return static_cast<T>(f(C{x})); });
    }
  });
}

}  // namespace

void CpuBackend::unary(Unary op, const Tensor& in, const Tensor& out) {
  formulas::visit(op, [&]<class F>(F f) {
    visit_dtype(in.dtype(), [&]<class T>() {
      if constexpr (!F::floating_only || std::is_floating_point_v<compute_type<T>>) {
        run<F, T>(in, out, f);
      } else {
        wrong_dtype("unary", "floating point", in.dtype());
      }
    });
  });
}

}  // namespace capstan

// Elements chosen by index along one axis.
#include "core/cpu/cpu_backend.h"
#include "core/cpu/loop.h"
#include "core/formulas.h"

namespace capstan {

void CpuBackend::gather(const Tensor& in, int axis, const Tensor& indices, const Tensor& out) {
  const int64_t* const index = indices.data<int64_t>();
  // The input without its step along the axis, which the index takes instead.
  Layout lines = in.layout();
  const int64_t step = std::exchange(lines.strides[axis], 0);
  lines.shape = out.shape();
  visit_dtype(in.dtype(), [&]<class T>() {
    const T* const x = in.data<T>();
    T* const y = out.mutable_data<T>();
    cpu::for_each_row<3>({&out.layout(), &indices.layout(), &lines},
                         [&](int64_t n, auto at, auto steps) {
                           for (int64_t j = 0; j < n; ++j) {
                             const int64_t chosen = index[at[1] + j * steps[1]];
                             y[at[0] + j * steps[0]] = x[at[2] + j * steps[2] + chosen * step];
                           }
                         });
  });
}

void CpuBackend::scatter(const Tensor& in, int axis, const Tensor& indices, const Tensor& out,
                         bool add) {
  const int64_t* const index = indices.data<int64_t>();
  const int64_t length = in.shape()[axis], from_step = in.strides()[axis];
  const int64_t index_step = indices.strides()[axis], to_step = out.strides()[axis];
  visit_dtype(in.dtype(), [&]<class T>() {
    const T* const x = in.data<T>();
    T* const y = out.mutable_data<T>();
    // A line belongs to one thread, which takes it in order: indices may repeat.
    const auto run = [&](const auto& write) {
      cpu::for_each_band<3>({&in.layout(), &indices.layout(), &out.layout()}, axis,
                            [&](auto lines, const auto& at, const auto& next) {
                              for (int64_t j = 0; j < length; ++j) {
                                for (int64_t l = 0; l < lines; ++l) {
                                  const int64_t chosen =
                                      index[at[1] + l * next[1] + j * index_step];
                                  write(y[at[2] + l * next[2] + chosen * to_step],
                                        x[at[0] + l * next[0] + j * from_step]);
                                }
                              }
                            });
    };
    if (add) {
      run([](T& to, T value) { to = formulas::Add{}(to, value); });
    } else {
      run([](T& to, T value) { to = value; });
    }
  });
}

Tensor CpuBackend::true_positions(const Tensor& mask) {
  const bool* const flags = mask.data<bool>();
  const int64_t total = mask.numel();
  const Tensor out = empty({std::count(flags, flags + total, true)},
                           {.dtype = Dtype::int64, .device = mask.device()});
  int64_t* next = out.mutable_data<int64_t>();
  for (int64_t i = 0; i < total; ++i) {
    if (flags[i]) *next++ = i;
  }
  return out;
}

}  // namespace capstan

// Steps of recurrent cells, row by row; the formulas stand in autograd/recurrence.h. What is kept
// of a row for its gradient:
//   tanh, relu   h
//   LSTM         i, f, g, o, tanh(c)
//   GRU          r, z, n, and the candidate's product with h, before r multiplies it
#include <algorithm>

#include "core/cpu/cpu_backend.h"
#include "core/cpu/loop.h"
#include "core/cpu/vector_math.h"

namespace capstan {
namespace {

/// One row of the operands of a step, `w` wide; c is null where there is none.
template <class T>
struct Forward {
  int64_t w;
  T* kept;
  T *h, *c;
};

/// What flows back through one row. `h` and `c` come with the gradients of the state after the
/// step, that of `out` included.
template <class T>
struct Backward {
  int64_t w;
  const T* kept;
  const T *h_before, *c_before;
  T *h, *c;
  T *x, *hidden;
};

template <class T>
void tanh_of(int64_t count, const T* in, T* out) {
  cpu::transform<formulas::Tanh>(count, in, 1, out, 1);
}

template <class T>
void sigmoid_of(int64_t count, T* x) {
  cpu::transform<formulas::Sigmoid>(count, x, 1, x, 1);
}

// The steps begin with the sums of products in `kept`.

template <class T>
void plain_step(const Forward<T>& row, bool relu) {
  if (relu) {
    cpu::map_row(row.w, row.kept, 1, row.kept, 1, formulas::Formula<Unary::relu>{});
  } else {
    tanh_of(row.w, row.kept, row.kept);
  }
  std::copy_n(row.kept, row.w, row.h);
}

template <class T>
void plain_grad(const Backward<T>& row, bool relu) {
  const auto slope = [relu](T grad, T h) {
    return relu ? (h > T{0} ? grad : T{0}) : grad * (T{1} - h * h);
  };
  cpu::map_row(row.w, row.h, 1, row.kept, 1, row.x, 1, slope);
  std::fill_n(row.h, row.w, T{0});
}

template <class T>
void lstm_step(const Forward<T>& row) {
  const int64_t w = row.w;
  T *const i = row.kept, *const f = i + w, *const g = f + w, *const o = g + w, *const u = o + w;
  T *const h = row.h, *const c = row.c;
  sigmoid_of(2 * w, i);
  tanh_of(w, g, g);
  sigmoid_of(w, o);
#pragma GCC ivdep
  for (int64_t j = 0; j < w; ++j) c[j] = f[j] * c[j] + i[j] * g[j];
  tanh_of(w, c, u);
#pragma GCC ivdep
  for (int64_t j = 0; j < w; ++j) h[j] = o[j] * u[j];
}

template <class T>
void lstm_grad(const Backward<T>& row) {
  const int64_t w = row.w;
  const T *const i = row.kept, *const f = i + w, *const g = f + w, *const o = g + w;
  const T *const u = o + w, *const before = row.c_before;
  T *const dh = row.h, *const dc = row.c;
  T *const di = row.x, *const df = di + w, *const dg = df + w, *const d_o = dg + w;
#pragma GCC ivdep
  for (int64_t j = 0; j < w; ++j) {
    const T slope = dc[j] + dh[j] * o[j] * (T{1} - u[j] * u[j]);  // of c after the step
    di[j] = slope * g[j] * i[j] * (T{1} - i[j]);
    df[j] = slope * before[j] * f[j] * (T{1} - f[j]);
    dg[j] = slope * i[j] * (T{1} - g[j] * g[j]);
    d_o[j] = dh[j] * u[j] * o[j] * (T{1} - o[j]);
    dc[j] = slope * f[j];
    dh[j] = T{0};
  }
}

template <class T>
void gru_step(const Forward<T>& row, const T* x, const T* hidden, const T* bias) {
  const int64_t w = row.w;
  T *const r = row.kept, *const z = r + w, *const n = z + w, *const m = n + w;
  T* const h = row.h;
  sigmoid_of(2 * w, r);
#pragma GCC ivdep
  for (int64_t j = 0; j < w; ++j) {
    m[j] = hidden[2 * w + j] + (bias ? bias[2 * w + j] : T{0});
    n[j] = x[2 * w + j] + r[j] * m[j];
  }
  tanh_of(w, n, n);
#pragma GCC ivdep
  for (int64_t j = 0; j < w; ++j) h[j] = n[j] + z[j] * (h[j] - n[j]);
}

template <class T>
void gru_grad(const Backward<T>& row) {
  const int64_t w = row.w;
  const T *const r = row.kept, *const z = r + w, *const n = z + w, *const m = n + w;
  const T* const before = row.h_before;
  T *const dh = row.h, *const x = row.x, *const hidden = row.hidden;
#pragma GCC ivdep
  for (int64_t j = 0; j < w; ++j) {
    const T dn = dh[j] * (T{1} - z[j]) * (T{1} - n[j] * n[j]);
    x[j] = hidden[j] = dn * m[j] * r[j] * (T{1} - r[j]);
    x[w + j] = hidden[w + j] = dh[j] * (before[j] - n[j]) * z[j] * (T{1} - z[j]);
    x[2 * w + j] = dn;
    hidden[2 * w + j] = dn * r[j];
    dh[j] *= z[j];
  }
}

/// The rows of [states, n, width], whose parts may lie apart: parts(j) is where row j has h and c.
template <class T>
struct Parts {
  T* data;
  int64_t width;
  int64_t apart;  // from h to c; 0 if there is no c

  Parts(T* data, const Tensor& x)
      : data(data), width(x.size(2)), apart(x.size(0) > 1 ? x.strides()[0] : 0) {}
  T* h(int64_t row) const { return data + row * width; }
  T* c(int64_t row) const { return apart ? h(row) + apart : nullptr; }
};

/// Rows that a thread takes at once.
int64_t grain(int64_t width) { return std::max<int64_t>(1, 1024 / std::max<int64_t>(1, width)); }

}  // namespace

void CpuBackend::recurrent_step(Cell cell, const Tensor& x, const Tensor& hidden,
                                const Tensor* bias, const Tensor& state, const Tensor& out,
                                const Tensor& kept) {
  const int64_t n = state.size(1), w = state.size(2);
  const CellSizes sizes = sizes_of(cell);
  visit_floating(x.dtype(), "recurrence", [&]<class T>() {
    const T *const xs = x.data<T>(), *const hs = hidden.data<T>();
    const T* const b = bias ? bias->data<T>() : nullptr;
    const Parts<T> states(state.mutable_data<T>(), state), outs(out.mutable_data<T>(), out);
    T* const gates = kept.mutable_data<T>();
    const int64_t width = sizes.gates * w;
    parallel_for(n, grain(w), [&](int64_t begin, int64_t end) {
      for (int64_t j = begin; j < end; ++j) {
        const Forward<T> row{w, gates + j * sizes.kept * w, states.h(j), states.c(j)};
        const T *const a = xs + j * width, *const d = hs + j * width;
#pragma GCC ivdep
        for (int64_t k = 0; k < width; ++k) row.kept[k] = a[k] + d[k] + (b ? b[k] : T{0});
        switch (cell) {
          case Cell::rnn_tanh:
          case Cell::rnn_relu:
            plain_step(row, cell == Cell::rnn_relu);
            break;
          case Cell::lstm:
            lstm_step(row);
            break;
          case Cell::gru:
            gru_step(row, a, d, b);
        }
        std::copy_n(row.h, w, outs.h(j));
        if (row.c) std::copy_n(row.c, w, outs.c(j));
      }
    });
  });
}

void CpuBackend::recurrent_step_grad(Cell cell, const Tensor& grad, const Tensor& kept,
                                     const Tensor& before, const Tensor& state_grad,
                                     const Tensor& x_grad, const Tensor& hidden_grad) {
  const int64_t n = before.size(1), w = before.size(2);
  const CellSizes sizes = sizes_of(cell);
  visit_floating(grad.dtype(), "recurrence", [&]<class T>() {
    const Parts<const T> grads(grad.data<T>(), grad), befores(before.data<T>(), before);
    const Parts<T> states(state_grad.mutable_data<T>(), state_grad);
    const T* const gates = kept.data<T>();
    T *const dx = x_grad.mutable_data<T>(), *const dhidden = hidden_grad.mutable_data<T>();
    const int64_t width = sizes.gates * w;
    const auto add = [w](const T* more, T* to) {
      cpu::map_row(w, to, 1, more, 1, to, 1, formulas::Add{});
    };
    parallel_for(n, grain(w), [&](int64_t begin, int64_t end) {
      for (int64_t j = begin; j < end; ++j) {
        const Backward<T> row{w,
                              gates + j * sizes.kept * w,
                              befores.h(j),
                              befores.c(j),
                              states.h(j),
                              states.c(j),
                              dx + j * width,
                              dhidden + j * width};
        add(grads.h(j), row.h);
        if (row.c) add(grads.c(j), row.c);
        switch (cell) {
          case Cell::rnn_tanh:
          case Cell::rnn_relu:
            plain_grad(row, cell == Cell::rnn_relu);
            break;
          case Cell::lstm:
            lstm_grad(row);
            break;
          case Cell::gru:
            gru_grad(row);
        }
      }
    });
  });
}

}  // namespace capstan

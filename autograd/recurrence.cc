#include "autograd/recurrence.h"

#include <algorithm>

#include "autograd/autocast.h"
#include "autograd/elementwise.h"
#include "autograd/engine.h"
#include "autograd/matmul.h"
#include "autograd/operands.h"
#include "autograd/rearrange.h"
#include "autograd/record.h"
#include "autograd/reduce.h"
#include "autograd/views.h"
#include "core/create.h"
#include "core/raise.h"

namespace capstan {

namespace {

constexpr const char* kName = "recurrence";

/// The rows of one step.
struct Step {
  int64_t begin, count;
};

/// The steps that have rows, in the order in which they run.
std::vector<Step> steps_of(const std::vector<int64_t>& counts, bool reverse) {
  std::vector<Step> steps;
  int64_t begin = 0;
  for (int64_t count : counts) {
    if (count > 0) steps.push_back({begin, count});
    begin += count;
  }
  if (reverse) std::reverse(steps.begin(), steps.end());
  return steps;
}

void check(Cell cell, const Tensor& x, const Tensor& state, const Tensor& weight,
           const Tensor* bias, const std::vector<int64_t>& counts) {
  check_floating(kName, x.dtype());
  for (const Tensor* t : {&state, &weight, bias}) {
    if (t) check_alike(kName, x, *t);
  }
  const CellSizes sizes = sizes_of(cell);
  const int64_t width = weight.rank() == 2 ? weight.size(1) : -1;
  if (x.rank() != 2 || state.rank() != 3 || weight.rank() != 2 ||
      weight.size(0) != sizes.gates * width || x.size(1) != sizes.gates * width ||
      state.size(0) != sizes.states || state.size(2) != width ||
      (bias && bias->shape() != Shape{sizes.gates * width})) {
    raise<ShapeError>(
        "[{}] this cell takes x [rows, {} * width], a state [{}, batch, width], weight [{} * "
        "width, "
        "width] and bias [{} * width], got {}, {}, {} and {}",
        kName, sizes.gates, sizes.states, sizes.gates, sizes.gates, x.shape(), state.shape(),
        weight.shape(), bias ? to_string(bias->shape()) : "none");
  }
  int64_t rows = 0, most = state.size(1);
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] < 0 || counts[i] > most || (i == 0 && counts[i] != most)) {
      raise<ValueError>("[{}] counts must fall from the batch of {} to 0, got {} at position {}",
                        kName, state.size(1), counts[i], i);
    }
    most = counts[i];
    rows += counts[i];
  }
  if (rows != x.size(0)) {
    raise<ShapeError>("[{}] counts must add up to the rows of x {}, got {}", kName, x.shape(),
                      rows);
  }
}

Tensor rows_of(const Tensor& x, int axis, const Step& step) {
  return view_of(x, x.layout().sliced(axis, step.begin, step.begin + step.count));
}

/// What there is before each step, [states, rows, width], off the tape.
Tensor states_before(const Tensor& state, const Tensor& out, const std::vector<Step>& steps) {
  const int64_t batch = state.size(1);
  std::vector<int64_t> from(out.size(1));  // places in the initial state, followed by the others
  Step previous{0, 0};
  for (const Step& step : steps) {
    for (int64_t i = 0; i < step.count; ++i) {
      from[step.begin + i] = i < previous.count ? batch + previous.begin + i : i;
    }
    previous = step;
  }
  const Tensor places = empty({out.size(1)}, {Dtype::int64, out.device()});
  copy_elements(from_vector(from, places.shape()), places);
  const Tensor all = cat({state, out}, 1), before = empty_like(out);
  for (int64_t part = 0; part < out.size(0); ++part) {
    backend(out).take_rows(select(all, 0, part), places, select(before, 0, part));
  }
  return before;
}

/// The gradients of x, state, weight and bias.
std::array<Tensor, 4> fused_grads(Cell cell, const Tensor& grad, const Tensor& out,
                                  const Tensor& kept, const Tensor& state, const Tensor& weight,
                                  const std::vector<Step>& steps, Wanted wanted) {
  const Tensor slopes = contiguous(grad), before = states_before(state, out, steps);
  const Tensor x_grad = empty({out.size(1), weight.size(0)}, {out.dtype(), out.device()});
  const Tensor hidden_grad = cell == Cell::gru ? empty_like(x_grad) : x_grad;
  const Tensor state_grad = zeros_like(state), h_grad = select(state_grad, 0, 0);
  const Tensor through = empty_like(h_grad);  // what flows back through the products
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    const Step first{0, step->count};
    const Tensor products = rows_of(hidden_grad, 0, *step);
    backend(out).recurrent_step_grad(cell, rows_of(slopes, 1, *step), rows_of(kept, 0, *step),
                                     rows_of(before, 1, *step), rows_of(state_grad, 1, first),
                                     rows_of(x_grad, 0, *step), products);
    const Tensor h = rows_of(h_grad, 0, first), more = rows_of(through, 0, first);
    backend(out).matmul(products, weight, more);
    backend(out).binary(Binary::add, h, more, h);
  }
  return {x_grad, state_grad,
          wanted[2] ? matmul(transpose(hidden_grad, 0, 1), select(before, 0, 0)) : Tensor(),
          wanted[3] ? sum(hidden_grad, {0}) : Tensor()};
}

// The same made of recorded operations, so that the gradients have gradients themselves.

/// The state [states, n, width] after a step, from the sums and the state before.
Tensor recorded_step(Cell cell, const Tensor& x, const Tensor& hidden, const Tensor& before) {
  if (cell == Cell::rnn_tanh) return unsqueeze(tanh(x + hidden), 0);
  if (cell == Cell::rnn_relu) return unsqueeze(relu(x + hidden), 0);
  const Tensor h = select(before, 0, 0);
  if (cell == Cell::lstm) {
    const auto gates = chunk(x + hidden, 4, 1);
    const Tensor c = sigmoid(gates[1]) * select(before, 0, 1) + sigmoid(gates[0]) * tanh(gates[2]);
    return stack({sigmoid(gates[3]) * tanh(c), c});
  }
  const auto a = chunk(x, 3, 1), b = chunk(hidden, 3, 1);
  const Tensor r = sigmoid(a[0] + b[0]), z = sigmoid(a[1] + b[1]), n = tanh(a[2] + r * b[2]);
  return unsqueeze(n + z * (h - n), 0);
}

Tensor recorded_steps(Cell cell, const Tensor& x, const Tensor& state, const Tensor& weight,
                      const Tensor* bias, const std::vector<Step>& steps) {
  std::vector<Tensor> outs;
  Tensor now = state;
  for (const Step& step : steps) {
    const Tensor before = slice(now, 1, 0, step.count);
    const Tensor hidden = linear(select(before, 0, 0), weight, bias);
    const Tensor sums = slice(x, 0, step.begin, step.begin + step.count);
    outs.push_back(recorded_step(cell, sums, hidden, before));
    now = cat({outs.back(), slice(now, 1, step.count, state.size(1))}, 1);
  }
  if (steps.front().begin > steps.back().begin) std::reverse(outs.begin(), outs.end());
  return cat(outs, 1);
}

/// Another place on the tape: hooks on the gradient of x shall not see what flows inside here.
Tensor alias(const Tensor& x) {
  return record(kName, detach(x), inputs(x),
                [](const Tensor& grad) { return gradients(Tensor(grad)); });
}

std::array<Tensor, 4> recorded_grads(Cell cell, const Tensor& grad, const Tensor& x,
                                     const Tensor& state, const Tensor& weight, const Tensor* bias,
                                     const std::vector<Step>& steps, Wanted wanted) {
  const std::array<Tensor, 4> in = {alias(x), alias(state), alias(weight),
                                    bias ? alias(*bias) : Tensor()};
  std::array<Tensor, 4> grads;
  if (steps.empty()) return grads;
  std::vector<Tensor> targets;
  for (int i = 0; i < 4; ++i) {
    if (wanted[i]) targets.push_back(in[i]);
  }
  const Tensor out = recorded_steps(cell, in[0], in[1], in[2], bias ? &in[3] : nullptr, steps);
  const auto found = capstan::grad(
      {out}, targets, {.seeds = {grad}, .create_graph = true, .unreached = Unreached::zeros});
  for (int i = 0, next = 0; i < 4; ++i) {
    if (wanted[i]) grads[i] = found[next++];
  }
  return grads;
}

}  // namespace

Tensor recurrence(Cell cell, const Tensor& x, const Tensor& state, const Tensor& weight,
                  const Tensor* bias, const std::vector<int64_t>& counts, bool reverse) {
  if (const Autocasting on; on) {
    return recurrence(cell, on.narrow(x), on.narrow(state), on.narrow(weight),
                      on.narrow(bias).get(), counts, reverse);
  }
  check(cell, x, state, weight, bias, counts);
  if (is_half(x.dtype())) {  // many steps, each with what the one before has rounded
    const Tensor b = bias ? in_compute_dtype(*bias) : Tensor();
    return cast(recurrence(cell, in_compute_dtype(x), in_compute_dtype(state),
                           in_compute_dtype(weight), bias ? &b : nullptr, counts, reverse),
                x.dtype());
  }
  const CellSizes sizes = sizes_of(cell);
  const int64_t rows = x.size(0), batch = state.size(1), width = weight.size(1);
  const TensorOptions like{x.dtype(), x.device()};
  const std::vector<Step> steps = steps_of(counts, reverse);

  const Tensor sums = contiguous(x), start = contiguous(state), w = contiguous(weight);
  const Tensor b = bias ? contiguous(*bias) : Tensor();
  const Tensor* const b_or_null = bias ? &b : nullptr;
  const Tensor out = empty({sizes.states, rows, width}, like);
  const Tensor kept = empty({rows, sizes.kept * width}, like);
  const Tensor now = dense_copy(start), h = view_of(now, now.layout().selected(0, 0));
  const Tensor hidden = empty({batch, sizes.gates * width}, like);
  const Tensor across = view_of(w, w.layout().transposed(0, 1));
  for (const Step& step : steps) {
    const Step first{0, step.count};
    const Tensor products = rows_of(hidden, 0, first);
    backend(out).matmul(rows_of(h, 0, first), across, products);
    backend(out).recurrent_step(cell, rows_of(sums, 0, step), products, b_or_null,
                                rows_of(now, 1, first), rows_of(out, 1, step),
                                rows_of(kept, 0, step));
  }
  return record(
      kName, out, inputs(sums, start, w, b_or_null),
      [cell, steps, out = Saved::output(out), kept = Saved(kept), x = Saved(sums),
       state = Saved(start), weight = Saved(w),
       bias = bias ? std::optional<Saved>(b) : std::nullopt](const Tensor& grad, Wanted wanted) {
        if (grad_enabled()) {
          const Tensor b = bias ? bias->get() : Tensor();
          return recorded_grads(cell, grad, x.get(), state.get(), weight.get(), bias ? &b : nullptr,
                                steps, wanted);
        }
        return fused_grads(cell, grad, out.get(), kept.get(), state.get(), weight.get(), steps,
                           wanted);
      });
}

}  // namespace capstan

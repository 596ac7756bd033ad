// Kernels that compute nothing and count what they would cost: one rule each, as floating-point
// operations, the tensors that are read, and those that are written.
//
// How to read the rules:
//   - An addition, a product, a comparison and each call of a basic function (exp, sqrt, every
//   entry
//     of Unary and Binary) is one operation on one element; a multiply-add is two.
//   - Only terms that grow with the elements count: the log of a row's sum, say, does not.
//   - Work on whole numbers and moving elements are no floating-point operations.
//   - A tensor that is broadcast is read once. An output that a kernel adds into is read as well.
//   - Linear algebra: the leading terms of Golub and Van Loan, "Matrix Computations", 4th edition
//     (cholesky 4.2, solve 3.2, qr 5.2, svd 8.6, eigh 8.3).
#include "core/meta/meta_backend.h"

#include <algorithm>
#include <bit>

#include "core/costs.h"
#include "core/raise.h"
#include "core/recipe.h"
#include "core/updates.h"

namespace capstan {
namespace {

using Tensors = std::initializer_list<const Tensor*>;  // null for an absent one

/// Bytes of the elements that a tensor shows, each once.
int64_t bytes_of(const Tensors& tensors) {
  int64_t bytes = 0;
  for (const Tensor* tensor : tensors) {
    if (!tensor || !tensor->defined()) continue;
    int64_t elements = 1;
    for (int axis = 0; axis < tensor->rank(); ++axis) {
      const int64_t size = tensor->shape()[axis];
      if (tensor->strides()[axis] != 0 || size == 0) elements *= size;
    }
    bytes += elements * item_size(tensor->dtype());
  }
  return bytes;
}

void count(const char* kernel, int64_t flops, const Tensors& read, const Tensors& written) {
  static constexpr std::string_view kRemembered[] = {"fill", "copy", "binary", "uniform", "normal"};
  if (Recipe::recording() && std::ranges::count(kRemembered, kernel) == 0) {
    raise<ValueError>(
        "[recipe] '{}' cannot be repeated later: numbers start by filling, copying, adding, "
        "multiplying, and from uniform and normal random numbers",
        kernel);
  }
  CountCosts::add(kernel, {1, flops, bytes_of(read), bytes_of(written)});
}

/// Keeps a kernel in the recipe that records, if one does.
void remember(const std::string& what, const std::vector<Tensor>& reads, const Tensor& writes,
              const Recipe::Kernel& kernel) {
  if (Recipe* const recipe = Recipe::recording()) recipe->add(what, reads, writes, kernel);
}

/// `each` operations on every element, if they are fractions.
int64_t on_each(const Tensor& x, int64_t each = 1) {
  return is_floating(x.dtype()) ? each * x.numel() : 0;
}

/// Pairs of a query and a key that it sees, in one head.
int64_t seen_pairs(int64_t queries, int64_t keys, bool causal) {
  if (!causal) return queries * keys;
  int64_t pairs = 0;
  for (int64_t i = 0; i < queries; ++i) {
    pairs += std::clamp<int64_t>(i + keys - queries + 1, 0, keys);
  }
  return pairs;
}

/// Operations that a mask and dropout add to each of them.
int64_t extras(const AttentionRules& rules) {
  return (rules.mask.defined() ? 1 : 0) + (rules.dropout > 0 ? 1 : 0);
}

/// Places of a label, or of a blank around one, in all frames of all sequences.
int64_t ctc_states(const CtcLengths& lengths) {
  int64_t states = 0;
  for (size_t i = 0; i < lengths.inputs.size(); ++i) {
    states += lengths.inputs[i] * (2 * lengths.targets[i] + 1);
  }
  return states;
}

/// Operations of an optimizer's rule on one element, as its formula in core/updates.h is written.
struct UpdateFlops {
  int64_t operator()(const SgdRule& rule) const { return rule.nesterov ? 9 : 7; }
  int64_t operator()(const AdamRule&) const { return 17; }
  int64_t operator()(const LambRule&) const { return 14; }
  int64_t operator()(const RmspropRule&) const { return 19; }
  int64_t operator()(const AdagradRule&) const { return 9; }
  int64_t operator()(const AdadeltaRule&) const { return 18; }
  int64_t operator()(const LionRule&) const { return 10; }
  int64_t operator()(const AverageRule&) const { return 3; }
};

[[noreturn]] void has_no_values(const char* kernel) {
  raise<DeviceError>("[{}] a tensor on meta has a shape but no values", kernel);
}

class MetaBackend final : public Backend {
 public:
  void fill(const Tensor& out, double value) override {
    count("fill", 0, {}, {&out});
    remember(fmt::format("fill {}", value), {}, out,
             [=](auto&, const Tensor& y) { backend(y).fill(y, value); });
  }
  void copy(const Tensor& in, const Tensor& out) override {
    count("copy", 0, {&in}, {&out});
    remember("copy", {in}, out, [](auto& x, const Tensor& y) { backend(y).copy(x[0], y); });
  }
  void unary(Unary, const Tensor& in, const Tensor& out) override {
    count("unary", on_each(in), {&in}, {&out});
  }
  void binary(Binary op, const Tensor& a, const Tensor& b, const Tensor& out) override {
    count("binary", on_each(out), {&a, &b}, {&out});
    remember(fmt::format("binary {}", static_cast<int>(op)), {a, b}, out,
             [=](auto& x, const Tensor& y) { backend(y).binary(op, x[0], x[1], y); });
  }
  void compare(Compare, const Tensor& a, const Tensor& b, const Tensor& out) override {
    count("compare", on_each(a), {&a, &b}, {&out});
  }
  void where(const Tensor& condition, const Tensor& a, const Tensor& b,
             const Tensor& out) override {
    count("where", 0, {&condition, &a, &b}, {&out});
  }

  void reduce(Reduction, const Tensor& in, const Tensor& out) override {
    count("reduce", on_each(in), {&in}, {&out});
  }
  void extreme_position(Reduction, const Tensor& in, int, const Tensor& out) override {
    count("extreme_position", on_each(in), {&in}, {&out});
  }
  void cumulative_sum(const Tensor& in, int, const Tensor& out) override {
    count("cumulative_sum", on_each(in), {&in}, {&out});
  }
  double sum_of_squares(const Tensor&) override { has_no_values("sum_of_squares"); }

  void matmul(const Tensor& a, const Tensor& b, const Tensor& out) override {
    count("matmul", on_each(out, 2 * a.size(-1)), {&a, &b}, {&out});
  }

  void take_rows(const Tensor&, const Tensor& indices, const Tensor& out) override {
    count("take_rows", 0, {&indices, &out}, {&out});  // reads what it writes
  }
  void add_rows(const Tensor& rows, const Tensor& indices, const Tensor&) override {
    count("add_rows", on_each(rows), {&rows, &indices, &rows}, {&rows});  // rows of the output
  }
  void gather(const Tensor&, int, const Tensor& indices, const Tensor& out) override {
    count("gather", 0, {&indices, &out}, {&out});
  }
  void scatter(const Tensor& in, int, const Tensor& indices, const Tensor&, bool add) override {
    const Tensor* const before = add ? &in : nullptr;  // as many elements of the output
    count("scatter", add ? on_each(in) : 0, {&in, &indices, before}, {&in});
  }
  Tensor true_positions(const Tensor&) override { has_no_values("true_positions"); }
  void order(const Tensor& in, bool, const Tensor& positions) override {
    // n log n comparisons a row
    const uint64_t n = std::max<int64_t>(1, in.size(-1));
    count("order", on_each(in, std::bit_width(n - 1)), {&in}, {&positions});
  }

  void log_softmax(const Tensor& in, const Tensor& out) override {
    // largest, difference, exp, sum, difference
    count("log_softmax", on_each(in, 5), {&in}, {&out});
  }
  void log_softmax_grad(const Tensor& grad, const Tensor& out, const Tensor& in_grad) override {
    // grad - exp(out) * sum(grad)
    count("log_softmax_grad", on_each(out, 4), {&grad, &out}, {&in_grad});
  }
  void cross_entropy(const Tensor& logits, const Tensor& targets, int64_t, const Tensor& losses,
                     const Tensor& log_sums) override {
    // largest, difference, exp, sum
    count("cross_entropy", on_each(logits, 4), {&logits, &targets}, {&losses, &log_sums});
  }
  void cross_entropy_grad(const Tensor& grad, const Tensor& logits, const Tensor& targets, int64_t,
                          const Tensor& log_sums, const Tensor& logits_grad) override {
    // exp(logit - largest - log of the sum) * grad
    count("cross_entropy_grad", on_each(logits, 4), {&grad, &logits, &targets, &log_sums},
          {&logits_grad});
  }

  void ctc_loss(const Tensor& log_p, const Tensor& targets, const CtcLengths& lengths, int64_t,
                const Tensor& losses, const Tensor& alphas) override {
    // The log of a sum of three exponentials (12), and the score.
    count("ctc_loss", 13 * ctc_states(lengths), {&log_p, &targets}, {&losses, &alphas});
  }
  void ctc_loss_grad(const Tensor& grad, const Tensor& log_p, const Tensor& targets,
                     const CtcLengths& lengths, int64_t, const Tensor& losses, const Tensor& alphas,
                     const Tensor& log_p_grad) override {
    // The same backwards, and exp(alpha + beta - total) added to its class; then the slope.
    count("ctc_loss_grad", 17 * ctc_states(lengths) + on_each(log_p),
          {&grad, &log_p, &targets, &losses, &alphas}, {&log_p_grad});
  }

  void normalize(const Tensor& x, bool center, double, const Tensor& out,
                 const Tensor& stats) override {
    // sum; difference, square, sum; difference, product. Or: square, sum; product.
    count("normalize", on_each(x, center ? 6 : 3), {&x}, {&out, &stats});
  }
  void normalize_grad(const Tensor& grad, const Tensor& x, const Tensor& stats, bool center, double,
                      const Tensor& x_grad) override {
    // With y = (x - mean) * r (2): sum(grad) (1), sum(grad * y) (2), and
    // (grad - mean(grad) - y * mean(grad * y)) * r (4). Without centre 1, 2 and 3.
    count("normalize_grad", on_each(x, center ? 9 : 6), {&grad, &x, &stats}, {&x_grad});
  }

  void attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionRules& rules,
                 const Tensor& out, const Tensor& log_sums) override {
    const int64_t d = q.size(3), e = v.size(3);
    const int64_t heads = q.size(0) * q.size(1);
    const int64_t pairs = heads * seen_pairs(q.size(2), k.size(2), rules.causal);
    // Each pair: q k (2 d), scale, largest, difference, exp, sum, p v (2 e), mask, dropout. Then a
    // division.
    const int64_t flops = pairs * (2 * d + 5 + 2 * e + extras(rules)) + out.numel();
    count("attention", flops, {&q, &k, &v, &rules.mask}, {&out, &log_sums});
  }
  void attention_grad(const Tensor& grad, const Tensor& q, const Tensor& k, const Tensor& v,
                      const AttentionRules& rules, const Tensor& out, const Tensor& log_sums,
                      const Tensor& q_grad, const Tensor& k_grad, const Tensor& v_grad) override {
    const int64_t d = q.size(3), e = v.size(3);
    const int64_t heads = q.size(0) * q.size(1);
    const int64_t pairs = heads * seen_pairs(q.size(2), k.size(2), rules.causal);
    // Each pair: the score again (2 d), p = exp(scale * score - largest - log of the sum) (4), its
    // gradient grad v (2 e), (that - delta) * p * scale (3), and the products for q, k (2 d each)
    // and v (2 e). Before it, delta = sum(grad * out).
    const int64_t flops = pairs * (6 * d + 7 + 4 * e + extras(rules)) + 2 * out.numel();
    count("attention_grad", flops, {&grad, &q, &k, &v, &rules.mask, &out, &log_sums},
          {&q_grad, &k_grad, &v_grad});
  }

  // Convolutions count the taps that fall on padding too.
  void conv2d(const Tensor& x, const Tensor& weight, const Tensor* bias, const Window2d&,
              const Tensor& out) override {
    count("conv2d", out.numel() * (2 * taps(weight) + (bias ? 1 : 0)), {&x, &weight, bias}, {&out});
  }
  void conv2d_input_grad(const Tensor& grad, const Tensor& weight, const Window2d&,
                         const Tensor& x_grad) override {
    count("conv2d_input_grad", on_each(grad, 2 * taps(weight)), {&grad, &weight}, {&x_grad});
  }
  void conv2d_weight_grad(const Tensor& grad, const Tensor& x, const Window2d&,
                          const Tensor& weight_grad) override {
    count("conv2d_weight_grad", on_each(grad, 2 * taps(weight_grad)), {&grad, &x}, {&weight_grad});
  }
  void max_pool2d(const Tensor& x, const Window2d& window, const Tensor& out,
                  const Tensor& chosen) override {
    count("max_pool2d", on_each(out, window.kernel[0] * window.kernel[1]), {&x}, {&out, &chosen});
  }
  void max_pool2d_grad(const Tensor& grad, const Tensor& chosen, const Tensor& x_grad) override {
    count("max_pool2d_grad", on_each(grad), {&grad, &chosen}, {&x_grad});
  }

  // The formulas of autograd/recurrence.h, as core/cpu/recurrent.cc computes them.
  void recurrent_step(Cell cell, const Tensor& x, const Tensor& hidden, const Tensor* bias,
                      const Tensor& state, const Tensor& out, const Tensor& kept) override {
    const int64_t gates = sizes_of(cell).gates;
    const int64_t each = (bias ? gates : 0) + (cell == Cell::lstm  ? 13
                                               : cell == Cell::gru ? 10
                                                                   : 2);
    count("recurrent_step", x.numel() / gates * each, {&x, &hidden, bias, &state},
          {&state, &out, &kept});
  }
  void recurrent_step_grad(Cell cell, const Tensor& grad, const Tensor& kept, const Tensor& before,
                           const Tensor& state_grad, const Tensor& x_grad,
                           const Tensor& hidden_grad) override {
    const auto [gates, states, _] = sizes_of(cell);
    const int64_t each = states + (cell == Cell::lstm ? 22 : cell == Cell::gru ? 16 : 3);
    count("recurrent_step_grad", x_grad.numel() / gates * each,
          {&grad, &kept, &before, &state_grad}, {&state_grad, &x_grad, &hidden_grad});
  }

  int64_t cholesky(const Tensor& a, const Tensor& lower) override {
    const int64_t batch = a.size(0), n = a.size(1);
    count("cholesky", batch * (n * n * n / 3), {&a}, {&lower});
    return -1;
  }
  int64_t solve(const Tensor& a, const Tensor& b, const Tensor& x) override {
    const int64_t batch = a.size(0), n = a.size(1), m = b.size(2);
    count("solve", batch * (2 * n * n * n / 3 + 2 * n * n * m), {&a, &b}, {&x});
    return -1;
  }
  void qr(const Tensor& a, const Tensor& q, const Tensor& r) override {
    const int64_t k = q.size(2), longer = std::max(a.size(1), a.size(2));
    // 2 k^2 (n - k / 3) for r, as many for q.
    count("qr", a.size(0) * 4 * (k * k * longer - k * k * k / 3), {&a}, {&q, &r});
  }
  void svd(const Tensor& a, const Tensor& u, const Tensor& s, const Tensor& v) override {
    const int64_t k = s.size(1), longer = std::max(a.size(1), a.size(2));
    count("svd", a.size(0) * (6 * longer * k * k + 20 * k * k * k), {&a}, {&u, &s, &v});
  }
  int64_t eigh(const Tensor& a, const Tensor& values, const Tensor& vectors) override {
    const int64_t batch = a.size(0), n = a.size(1);
    count("eigh", batch * 9 * n * n * n, {&a}, {&values, &vectors});
    return -1;
  }

  // One operation brings a random number to its range.
  void uniform(uint64_t seed, uint64_t offset, double low, double high,
               const Tensor& out) override {
    count("uniform", on_each(out), {}, {&out});
    remember(fmt::format("uniform {} {} {} {}", seed, offset, low, high), {}, out,
             [=](auto&, const Tensor& y) { backend(y).uniform(seed, offset, low, high, y); });
  }
  void normal(uint64_t seed, uint64_t offset, double mean, double deviation,
              const Tensor& out) override {
    count("normal", on_each(out), {}, {&out});
    remember(fmt::format("normal {} {} {} {}", seed, offset, mean, deviation), {}, out,
             [=](auto&, const Tensor& y) { backend(y).normal(seed, offset, mean, deviation, y); });
  }
  void integers(uint64_t, uint64_t, int64_t, uint64_t, const Tensor& out) override {
    count("integers", on_each(out), {}, {&out});
  }
  void dropout(uint64_t, uint64_t, const Layout&, double, const Tensor& in,
               const Tensor& out) override {
    count("dropout", on_each(in), {&in}, {&out});
  }

  void update(std::span<const Update> updates) override {
    for (const Update& update : updates) {
      const Tensor &p = update.parameter, &g = update.grad;
      Cost cost{1, on_each(p, std::visit(UpdateFlops(), update.rule)), bytes_of({&p, &g}),
                bytes_of({&p})};
      for (const Tensor& kept : update.kept) {
        cost.bytes_read += bytes_of({&kept});
        cost.bytes_written += bytes_of({&kept});
      }
      CountCosts::add("update", cost);
    }
  }

 private:
  /// Products for one output of a convolution.
  static int64_t taps(const Tensor& weight) {
    return weight.size(1) * weight.size(2) * weight.size(3);
  }
};

}  // namespace

Backend& meta_backend() {
  static MetaBackend backend;
  return backend;
}

}  // namespace capstan

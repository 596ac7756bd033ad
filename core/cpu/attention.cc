// Attention in tiles of scores that stay in the cache, with the softmax corrected as more keys come
// in (Milakov, Gimelshein, "Online normalizer calculation for softmax", 2018; Dao et al.,
// "FlashAttention", NeurIPS 2022, algorithms 1 and 4).
//
// Forward, for a block of queries, over the blocks of keys:
//   s = scale q k^T + mask;  new = max(most, rows' maxima of s)
//   out, sum *= exp(most - new);  p = exp(s - new);  sum += rows' sums of p;  out += p v
// and in the end out /= sum. Backward makes p again from the kept most and log(sum):
//   d v += p^T d out;  d s = p * (d out v^T - rows' sums of d out * out)
//   d q += scale d s k;  d k += scale d s^T q
// Dropout puts factors of 0 or 1 / (1 - probability) on p before it meets v, and on d out v^T;
// backward makes them again from the random stream. (The rows' sums need none: out has them.)
#include <cmath>
#include <limits>

#include "core/cpu/cpu_backend.h"
#include "core/cpu/fold.h"
#include "core/cpu/loop.h"
#include "core/cpu/product.h"
#include "core/cpu/scratch.h"
#include "core/cpu/vector_math.h"
#include "core/cpu/words.h"

namespace capstan {
namespace {

using cpu::Matrix;
using cpu::Scratch;

constexpr int64_t kQueries = 64, kKeys = 128;  // a tile of scores: 32 KiB in float32
template <class T>
constexpr T kNever = -std::numeric_limits<T>::infinity();

/// The rows of the last two axes of a dense [batch, heads, rows, columns].
template <class T>
struct Heads {
  T* data;
  int64_t rows, columns;

  Heads(T* data, const Tensor& x) : data(data), rows(x.size(2)), columns(x.size(3)) {}
  T* row(int64_t head, int64_t i) const { return data + (head * rows + i) * columns; }
  Matrix<std::remove_const_t<T>> block(int64_t head, int64_t begin, int64_t count) const {
    return Matrix<std::remove_const_t<T>>::dense(row(head, begin), count, columns);
  }
};

/// A tile of scores: queries i to i + rows, keys j to j + columns, of one head.
struct Tile {
  int64_t head, i, rows, j, columns;
};

template <class T>
struct Scores {
  Heads<const T> q, k;
  int64_t heads, share;  // heads; heads that share keys
  const AttentionRules& rules;
  const T* biases;
  T scale;

  Scores(const Tensor& q, const Tensor& k, const AttentionRules& rules)
      : q(q.data<T>(), q),
        k(k.data<T>(), k),
        heads(q.size(1)),
        share(k.size(1) ? q.size(1) / k.size(1) : 1),
        rules(rules),
        biases(rules.mask.defined() ? rules.mask.data<T>() : nullptr),
        scale(static_cast<T>(rules.scale)) {}

  /// Keys that query i sees: those before this one.
  int64_t reach(int64_t i) const {
    return rules.causal ? std::clamp<int64_t>(i + 1 + k.rows - q.rows, 0, k.rows) : k.rows;
  }

  /// Calls f(tile) for the tiles of a block of queries, leaving out those that nobody sees.
  template <class F>
  void for_each_tile(int64_t head, int64_t i, const F& f) const {
    const int64_t rows = std::min(kQueries, q.rows - i), end = reach(i + rows - 1);
    for (int64_t j = 0; j < end; j += kKeys) f(Tile{head, i, rows, j, std::min(kKeys, end - j)});
  }

  /// Writes the scores of a tile to `s`, row by row.
  void write(const Tile& t, T* s) const {
    cpu::multiply(q.block(t.head, t.i, t.rows),
                  k.block(t.head / share, t.j, t.columns).transposed(), s);
    for (int64_t r = 0; r < t.rows; ++r) {
      T* const row = s + r * t.columns;
      cpu::map_row(t.columns, row, 1, row, 1, [this](T value) { return value * scale; });
      if (biases) {
        const Strides& step = rules.mask.strides();
        const T* const bias = biases + t.head / heads * step[0] + t.head % heads * step[1] +
                              (t.i + r) * step[2] + t.j * step[3];
        cpu::map_row(t.columns, row, 1, bias, step[3], row, 1,
                     [](T value, T more) { return value + more; });
      }
      const int64_t seen = std::clamp<int64_t>(reach(t.i + r) - t.j, 0, t.columns);
      std::fill(row + seen, row + t.columns, kNever<T>);
    }
  }

  /// The factors of dropout for row r of a tile.
  void write_factors(const Tile& t, int64_t r, T* factors) const {
    constexpr uint64_t kBlocks = kKeys / 4 + 1;  // a row's words, from any one on
    const Strides& step = rules.place.strides;
    const uint64_t first = rules.place.offset + t.head / heads * step[0] +
                           t.head % heads * step[1] + (t.i + r) * step[2] + t.j;
    const float least = static_cast<float>(rules.dropout);
    const T kept = static_cast<T>(1 / (1 - rules.dropout));
    cpu::for_each_piece<1, kBlocks>(rules.seed, rules.offset + first, 0, t.columns,
                                    [=](int64_t j, int64_t n, const uint32_t* words) {
                                      cpu::map_row(n, words, 1, factors + j, 1, [=](uint32_t word) {
                                        return unit_uniform(word) >= least ? kept : T{0};
                                      });
                                    });
  }
};

/// row = exp(row - most), or 0 where no key was seen.
template <class T>
void exponentials(T* row, int64_t count, T most, T rest = 0) {
  if (most == kNever<T>) {
    std::fill_n(row, count, T{0});
    return;
  }
  cpu::map_row(count, row, 1, row, 1, [=](T value) { return value - most - rest; });
  cpu::transform<formulas::Exp>(count, row, 1, row, 1);
}

/// row *= factors.
template <class T>
void multiply_row(int64_t count, T* row, const T* factors) {
  cpu::map_row(count, row, 1, factors, 1, row, 1, [](T a, T b) { return a * b; });
}

}  // namespace

void CpuBackend::attention(const Tensor& q, const Tensor& k, const Tensor& v,
                           const AttentionRules& rules, const Tensor& out, const Tensor& log_sums) {
  visit_floating(q.dtype(), "attention", [&]<class T>() {
    const Scores<T> scores(q, k, rules);
    const Heads<const T> values(v.data<T>(), v);
    const Heads<T> results(out.mutable_data<T>(), out);
    T* const kept = log_sums.mutable_data<T>();
    const int64_t queries = q.size(2), width = values.columns;
    const int64_t blocks = (queries + kQueries - 1) / kQueries;
    parallel_for(q.size(0) * q.size(1) * blocks, 1, [&](int64_t begin, int64_t end) {
      const Scratch<T> tile(kQueries * kKeys);
      for (int64_t block = begin; block < end; ++block) {
        const int64_t head = block / blocks, i = block % blocks * kQueries;
        const int64_t rows = std::min(kQueries, queries - i);
        T* const result = results.row(head, i);
        std::fill_n(result, rows * width, T{0});
        T most[kQueries];
        double sum[kQueries] = {};
        std::fill_n(most, rows, kNever<T>);
        scores.for_each_tile(head, i, [&](const Tile& t) {
          T* const s = tile.data();
          scores.write(t, s);
          for (int64_t r = 0; r < rows; ++r) {
            T* const row = s + r * t.columns;
            const T next =
                cpu::Max<T>::join(most[r], cpu::fold_row<cpu::Max<T>>(row, t.columns, 1));
            const T shrink = most[r] == next ? T{1} : std::exp(most[r] - next);
            exponentials(row, t.columns, next);
            most[r] = next;
            sum[r] = sum[r] * shrink + cpu::fold_row<cpu::Sum<T>>(row, t.columns, 1);
            if (rules.dropout > 0) {
              T factors[kKeys];
              scores.write_factors(t, r, factors);
              multiply_row(t.columns, row, factors);
            }
            T* const to = result + r * width;
            cpu::map_row(width, to, 1, to, 1, [shrink](T value) { return value * shrink; });
          }
          cpu::multiply(Matrix<T>::dense(s, rows, t.columns),
                        values.block(head / scores.share, t.j, t.columns), result, true);
        });
        for (int64_t r = 0; r < rows; ++r) {
          const bool blind = most[r] == kNever<T>;
          const T part = blind ? T{0} : static_cast<T>(1 / sum[r]);
          T* const to = result + r * width;
          cpu::map_row(width, to, 1, to, 1, [part](T value) { return value * part; });
          T* const pair = kept + 2 * (head * queries + i + r);
          pair[0] = most[r];
          pair[1] = blind ? T{0} : static_cast<T>(std::log(sum[r]));
        }
      }
    });
  });
}

void CpuBackend::attention_grad(const Tensor& grad, const Tensor& q, const Tensor& k,
                                const Tensor& v, const AttentionRules& rules, const Tensor& out,
                                const Tensor& log_sums, const Tensor& q_grad, const Tensor& k_grad,
                                const Tensor& v_grad) {
  visit_floating(q.dtype(), "attention", [&]<class T>() {
    const Scores<T> scores(q, k, rules);
    const Heads<const T> values(v.data<T>(), v), results(out.data<T>(), out);
    const Heads<const T> slopes(grad.data<T>(), grad);
    const Heads<T> dq(q_grad.mutable_data<T>(), q), dk(k_grad.mutable_data<T>(), k);
    const Heads<T> dv(v_grad.mutable_data<T>(), v);
    const T* const kept = log_sums.data<T>();
    const int64_t queries = q.size(2), share = scores.share;
    // Heads that share keys and values add to the same gradients, so one thread takes them all.
    parallel_for(k.size(0) * k.size(1), 1, [&](int64_t begin, int64_t end) {
      const Scratch<T> probabilities(kQueries * kKeys), score_grads(kQueries * kKeys);
      T* const p = probabilities.data();
      T* const ds = score_grads.data();
      for (int64_t group = begin; group < end; ++group) {
        std::fill_n(dk.row(group, 0), dk.rows * dk.columns, T{0});
        std::fill_n(dv.row(group, 0), dv.rows * dv.columns, T{0});
        for (int64_t head = group * share; head < (group + 1) * share; ++head) {
          std::fill_n(dq.row(head, 0), queries * dq.columns, T{0});
          for (int64_t i = 0; i < queries; i += kQueries) {
            scores.for_each_tile(head, i, [&](const Tile& t) {
              scores.write(t, p);
              const auto dout = slopes.block(head, i, t.rows);
              cpu::multiply(dout, values.block(group, t.j, t.columns).transposed(), ds);
              for (int64_t r = 0; r < t.rows; ++r) {
                const T* const pair = kept + 2 * (head * queries + i + r);
                T* const row = p + r * t.columns;
                exponentials(row, t.columns, pair[0], pair[1]);
                double total = 0;
                const T* const a = slopes.row(head, i + r);
                const T* const b = results.row(head, i + r);
                for (int64_t c = 0; c < values.columns; ++c) total += double(a[c]) * b[c];
                const T mean = static_cast<T>(total), factor = scores.scale;
                T* const to = ds + r * t.columns;
                T factors[kKeys];
                if (rules.dropout > 0) {
                  scores.write_factors(t, r, factors);
                  multiply_row(t.columns, to, factors);
                }
                cpu::map_row(t.columns, row, 1, to, 1, to, 1,
                             [=](T weight, T slope) { return weight * (slope - mean) * factor; });
                if (rules.dropout > 0) multiply_row(t.columns, row, factors);
              }
              const auto weights = Matrix<T>::dense(p, t.rows, t.columns);
              const auto dscores = Matrix<T>::dense(ds, t.rows, t.columns);
              cpu::multiply(weights.transposed(), dout, dv.row(group, t.j), true);
              cpu::multiply(dscores, scores.k.block(group, t.j, t.columns), dq.row(head, i), true);
              cpu::multiply(dscores.transposed(), scores.q.block(head, i, t.rows),
                            dk.row(group, t.j), true);
            });
          }
        }
      }
    });
  });
}

}  // namespace capstan

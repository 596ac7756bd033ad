#include "distributed/context_parallel/ring_attention.h"

#include <array>
#include <cmath>
#include <map>
#include <vector>

#include "autograd/arithmetic.h"
#include "autograd/attention.h"
#include "autograd/functions.h"
#include "autograd/rearrange.h"
#include "autograd/record.h"
#include "autograd/views.h"
#include "core/backend.h"
#include "core/create.h"
#include "core/raise.h"

namespace capstan::distributed {
namespace {

constexpr const char* kName = "ring_attention";
constexpr int64_t kRows = 2;  // the axis of [batch, heads, m, d] that is the sequence

/// Rows of a rank's part that lie one after another in the sequence; a lower place comes earlier.
struct Block {
  int64_t first, count, place;
};

std::vector<Block> blocks_of(int64_t rows, SequenceCut cut, int rank, int ranks) {
  const AxisPart part = part_of_sequence(kRows, cut, rank, ranks);
  const int64_t count = rows / part.blocks;
  std::vector<Block> blocks;
  for (int64_t i = 0; i < part.blocks; ++i) {
    blocks.push_back({i * count, count, part.first + i * part.step});
  }
  return blocks;
}

Tensor rows_of(const Tensor& x, const Block& block) {
  if (block.count == x.size(kRows)) return x;
  return dense_copy(view_of(x, x.layout().sliced(kRows, block.first, block.first + block.count)));
}

/// target's rows += rows.
void add_rows(const Tensor& target, const Block& block, const Tensor& rows) {
  const Tensor place =
      view_of(target, target.layout().sliced(kRows, block.first, block.first + block.count));
  backend(place).binary(Binary::add, place, rows, place);
}

void check(const Tensor& q, const Tensor& k, const Tensor& v, const RingAttentionOptions& options) {
  if (!is_floating(q.dtype()) || k.dtype() != q.dtype() || v.dtype() != q.dtype()) {
    raise<DtypeError>("[{}] takes floating point, all equal, got {}, {} and {}", kName, q.dtype(),
                      k.dtype(), v.dtype());
  }
  const bool fits = q.rank() == 4 && k.rank() == 4 && v.rank() == 4 && k.size(0) == q.size(0) &&
                    v.size(0) == q.size(0) && k.size(3) == q.size(3) && v.size(1) == k.size(1) &&
                    k.size(2) == q.size(2) && v.size(2) == q.size(2) && k.size(1) > 0 &&
                    q.size(1) % k.size(1) == 0 && q.size(2) > 0;
  if (!fits) {
    raise<ShapeError>(
        "[{}] takes q [batch, heads, m, d], k [batch, groups, m, d] and v [batch, groups, m, e] "
        "with "
        "m of 1 or more and heads a multiple of groups, got {}, {} and {}",
        kName, q.shape(), k.shape(), v.shape());
  }
  if (options.cut == SequenceCut::zigzag && q.size(2) % 2 != 0) {
    raise<ShapeError>("[{}] zigzag has two blocks a rank, and m must be even, got {}", kName,
                      q.shape());
  }
  if (!(options.dropout >= 0 && options.dropout < 1)) {
    raise<ValueError>("[{}] dropout must be in [0, 1), got {}", kName, options.dropout);
  }
}

/// Two tensors in one buffer that travels round the ring.
class Parcel {
 public:
  /// Zeros, of the shapes and the dtype of `a` and `b`.
  Parcel(const Tensor& a, const Tensor& b)
      : buffer_(zeros({a.numel() + b.numel()}, {a.dtype(), a.device()})) {
    Layout layout = Layout::dense(b.shape());
    layout.offset = a.numel();
    first_ = view_of(buffer_, Layout::dense(a.shape()));
    second_ = view_of(buffer_, layout);
  }
  static Parcel of(const Tensor& a, const Tensor& b) {
    Parcel parcel(a, b);
    copy_elements(a, parcel.first_);
    copy_elements(b, parcel.second_);
    return parcel;
  }

  const Tensor& first() const { return first_; }
  const Tensor& second() const { return second_; }

  /// Sends this to the next rank, and receives what becomes `next` from the one before.
  Work pass_on(const Parcel& next, Communicator& ranks, const char* tag) const {
    const int n = ranks.size(), rank = ranks.rank();
    return ranks.send_recv(buffer_, (rank + 1) % n, next.buffer_, (rank + n - 1) % n, tag);
  }

 private:
  Tensor buffer_, first_, second_;
};

/// Where the blocks of queries of this rank meet those of keys of another, `source`: calls
/// visit(queries, keys, diagonal), with diagonal true where a causal query sees only some of them.
template <class Visit>
void for_each_meeting(int64_t rows, const RingAttentionOptions& options, const Communicator& ranks,
                      int source, const Visit& visit) {
  for (const Block& queries : blocks_of(rows, options.cut, ranks.rank(), ranks.size())) {
    for (const Block& keys : blocks_of(rows, options.cut, source, ranks.size())) {
      if (options.causal && queries.place < keys.place) continue;
      visit(queries, keys, options.causal && queries.place == keys.place);
    }
  }
}

/// Attention of some queries to the keys they have met so far.
struct Partial {
  Tensor out;  // [batch, heads, m, e]
  Tensor
      log_sums;  // [batch, heads, m, 2]: the largest score, and the log of the sum relative to it
};

Partial attend(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionRules& rules) {
  const Shape rows{q.size(0), q.size(1), q.size(2)};
  Partial partial{empty({rows[0], rows[1], rows[2], v.size(3)}, {q.dtype(), q.device()}),
                  empty({rows[0], rows[1], rows[2], 2}, {q.dtype(), q.device()})};
  backend(q).attention(q, k, v, rules, partial.out, partial.log_sums);
  return partial;
}

Partial merge(const Partial& a, const Partial& b) {
  const auto column = [](const Partial& p, int64_t i) { return slice(p.log_sums, 3, i, i + 1); };
  const Tensor most = maximum(column(a, 0), column(b, 0));
  const Tensor from_a = exp(column(a, 0) - most + column(a, 1));
  const Tensor from_b = exp(column(b, 0) - most + column(b, 1));
  const Tensor sum = from_a + from_b;
  return {(a.out * from_a + b.out * from_b) / sum, cat({most, log(sum)}, 3)};
}

}  // namespace

AxisPart part_of_sequence(int64_t axis, SequenceCut cut, int rank, int ranks) {
  if (cut == SequenceCut::blocks) return {axis, rank, ranks};
  return {axis, rank, 2 * ranks, 2, 2 * (ranks - rank) - 1};
}

Tensor sequence_places(int64_t n, SequenceCut cut, int rank, int ranks) {
  const int64_t blocks = part_of_sequence(0, cut, rank, ranks).of;
  if (n % blocks != 0) {
    raise<ShapeError>(
        "[sequence_places] {} ranks cut a sequence into {} blocks, which must divide "
        "it, got {}",
        ranks, blocks, n);
  }
  std::vector<int64_t> places;
  for (const Block& block : blocks_of(n / ranks, cut, rank, ranks)) {
    for (int64_t i = 0; i < block.count; ++i) places.push_back(block.place * block.count + i);
  }
  return from_vector(places, {n / ranks});
}

namespace {

/// Forward and backward of one call, in the dtype of kernels.
class Ring {
 public:
  Ring(Communicator& ranks, const RingAttentionOptions& options, const Tensor& q,
       Generator& generator)
      : ranks_(ranks), options_(options) {
    const double usual = 1 / std::sqrt(static_cast<double>(std::max<int64_t>(1, q.size(3))));
    rules_.scale = options.scale.value_or(usual);
    if (options.dropout == 0) return;
    rules_.dropout = options.dropout;
    rules_.seed = generator.seed();
    const int64_t rows = blocks_of(q.size(kRows), options.cut, 0, ranks.size())[0].count;
    rules_.offset = generator.advance(part({q.size(0), q.size(1), rows, rows}, 0, 0).whole);
  }

  Partial forward(const Tensor& q, const Tensor& k, const Tensor& v) const {
    const int64_t rows = q.size(kRows);
    std::map<int64_t, Partial> found;  // by the first row of a block of queries
    turn(Parcel::of(k, v), [&](int source, const Parcel& parcel) {
      for_each_meeting(rows, options_, ranks_, source,
                       [&](const Block& queries, const Block& keys, bool diagonal) {
                         const Partial partial = attend(
                             rows_of(q, queries), rows_of(parcel.first(), keys),
                             rows_of(parcel.second(), keys), rules(q, queries, keys, diagonal));
                         const auto [entry, is_new] = found.try_emplace(queries.first, partial);
                         if (!is_new) entry->second = merge(entry->second, partial);
                       });
    });
    std::vector<Tensor> out, log_sums;
    for (const auto& [_, partial] : found) {
      out.push_back(partial.out);
      log_sums.push_back(partial.log_sums);
    }
    return {cat(out, kRows), cat(log_sums, kRows)};
  }

  std::array<Tensor, 3> backward(const Tensor& grad, const Tensor& q, const Tensor& k,
                                 const Tensor& v, const Partial& result) const {
    const int64_t rows = q.size(kRows);
    const Tensor q_grad = zeros_like(q);
    Parcel grads(k, v);  // of the keys and values that are here
    turn(Parcel::of(k, v), [&](int source, const Parcel& parcel) {
      for_each_meeting(
          rows, options_, ranks_, source,
          [&](const Block& queries, const Block& keys, bool diagonal) {
            const Tensor some_q = rows_of(q, queries), some_k = rows_of(parcel.first(), keys),
                         some_v = rows_of(parcel.second(), keys);
            const Tensor dq = empty_like(some_q), dk = empty_like(some_k), dv = empty_like(some_v);
            backend(q).attention_grad(
                rows_of(grad, queries), some_q, some_k, some_v, rules(q, queries, keys, diagonal),
                rows_of(result.out, queries), rows_of(result.log_sums, queries), dq, dk, dv);
            add_rows(q_grad, queries, dq);
            add_rows(grads.first(), keys, dk);
            add_rows(grads.second(), keys, dv);
          });
      if (ranks_.size() == 1) return;
      const Parcel next(k, v);
      grads.pass_on(next, ranks_, "gradients of keys and values").wait();
      grads = next;
    });
    return {q_grad, grads.first(), grads.second()};
  }

 private:
  AttentionRules rules(const Tensor& q, const Block& queries, const Block& keys,
                       bool causal) const {
    AttentionRules rules = rules_;
    rules.causal = causal;
    if (rules.dropout > 0) {
      const Shape weights{q.size(0), q.size(1), queries.count, keys.count};
      rules.place = part(weights, queries.place, keys.place).layout;
    }
    return rules;
  }

  /// Weights of a block of queries for one of keys, as a part of those of the whole sequence.
  Part part(const Shape& weights, int64_t queries, int64_t keys) const {
    const int64_t blocks = part_of_sequence(kRows, options_.cut, 0, ranks_.size()).of;
    AxisParts parts = options_.parts;
    parts.push_back({kRows, queries, blocks});
    parts.push_back({kRows + 1, keys, blocks});
    return part_of(weights, parts);
  }

  /// Calls step(source, parcel) with each rank's parcel; the next one travels meanwhile.
  template <class Step>
  void turn(Parcel parcel, const Step& step) const {
    const int n = ranks_.size();
    for (int i = 0; i < n; ++i) {
      std::optional<Parcel> next;
      Work moving;
      if (i + 1 < n) {
        next.emplace(parcel.first(), parcel.second());
        moving = parcel.pass_on(*next, ranks_, "keys and values");
      }
      step((ranks_.rank() + n - i) % n, parcel);
      if (!next) return;
      moving.wait();
      parcel = *next;
    }
  }

  Communicator& ranks_;
  RingAttentionOptions options_;
  AttentionRules rules_;
};

}  // namespace

Tensor ring_attention(const Tensor& q, const Tensor& k, const Tensor& v, Communicator& ranks,
                      const RingAttentionOptions& options, Generator& generator) {
  check(q, k, v, options);
  if (const Dtype wide = compute_dtype(q.dtype()); wide != q.dtype()) {
    return cast(
        ring_attention(cast(q, wide), cast(k, wide), cast(v, wide), ranks, options, generator),
        q.dtype());
  }
  const Ring ring(ranks, options, q, generator);
  if (q.device().kind == Device::Kind::meta) {  // the generator moves on there, too
    return scaled_dot_product_attention(q, k, v, {.causal = options.causal});
  }
  const Tensor queries = contiguous(q), keys = contiguous(k), values = contiguous(v);
  const Partial result =
      no_grad([&] { return ring.forward(detach(queries), detach(keys), detach(values)); });
  return record(
      kName, result.out, inputs(queries, keys, values),
      [ring, out = Saved::output(result.out), log_sums = Saved(result.log_sums),
       queries = Saved(queries), keys = Saved(keys), values = Saved(values)](const Tensor& grad) {
        if (grad_enabled()) {
          raise<GradientError>("[{}] has no gradient of its gradient", kName);
        }
        return ring.backward(contiguous(grad), queries.get(), keys.get(), values.get(),
                             {out.get(), log_sums.get()});
      });
}

}  // namespace capstan::distributed

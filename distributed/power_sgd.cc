// Implements power_sgd().
//
// The idea. A gradient of n x m numbers is close to a matrix of low rank r, P Q^T, whose factors
// have only (n + m) r. The best ones would need a singular value decomposition; one step of a power
// iteration, begun at the factors of the step before, is nearly as good, because gradients change
// slowly (the "warm start"). Both of its products are linear in the gradient, so ranks can add them
// up before anyone decompresses anything:
//
//   M_w = gradient of rank w + error_w     [n, m]   what it wants to send
//   P   = sum over w of M_w Q              [n, r]   all-reduce 1; equals (sum of M_w) Q
//   P   = orthonormal columns of P                  the same on all ranks
//   Q_w = M_w^T P                          [m, r]
//   Q   = sum over w of Q_w                         all-reduce 2
//   the sum over w of M_w is taken to be P Q^T, its projection onto the columns of P
//   error_w = M_w - P Q_w^T                         what was not sent
//
// Error feedback. Nothing is lost: what a step leaves out is added to the gradient of the next, so
// that over time all of it arrives (algorithm 2 of the paper). Without it the steps would be biased
// for ever towards the same few directions.
//
// A gradient that is not finite, as loss scaling makes now and then, leaves with its step: neither
// error nor Q take it over, or all later steps would be spoilt.
//
// Bytes sent for a layer of 1024 x 1024 at rank 2: 16 KB in place of 4 MB.
#include "distributed/power_sgd.h"

#include <cmath>
#include <map>
#include <numeric>
#include <vector>

#include "autograd/elementwise.h"
#include "autograd/matmul.h"
#include "autograd/node.h"
#include "autograd/views.h"
#include "core/raise.h"
#include "core/random.h"
#include "optim/measures.h"

namespace capstan::distributed {
namespace {

constexpr const char* kGroup = "power_sgd";  // in checkpoints

void keep_if_finite(const Tensor& value, const Tensor& kept) {
  if (optim::all_finite(value)) copy_elements(value, kept);
}

double length(const std::vector<double>& v) {
  return std::sqrt(std::inner_product(v.begin(), v.end(), v.begin(), 0.0));
}

/// Makes the columns of p [n, r], r <= n, orthonormal (modified Gram and Schmidt). A column that
/// depends on those before it, or is 0, carries no direction; a random one takes its place, since a
/// column of zeros would give a Q of zeros, and that another such P, for ever.
template <class T>
void orthonormalize(T* p, int64_t n, int64_t r, const Generator& random) {
  constexpr double kDependent = 1e-6;  // of a column's length, may be left by rounding alone
  std::vector<double> column(n);
  for (int64_t c = 0; c < r; ++c) {
    for (int64_t i = 0; i < n; ++i) column[i] = p[i * r + c];
    Generator generator = random.fork(c);
    for (;;) {
      const double before = length(column);
      for (int64_t e = 0; e < c; ++e) {
        double along = 0;
        for (int64_t i = 0; i < n; ++i) along += column[i] * p[i * r + e];
        for (int64_t i = 0; i < n; ++i) column[i] -= along * p[i * r + e];
      }
      // (What is not finite passes on.)
      if (!std::isfinite(before) || length(column) > kDependent * before) break;
      column = randn({n}, 0, 1, {.dtype = Dtype::float64}, generator).to_vector<double>();
    }
    const double norm = length(column);
    for (int64_t i = 0; i < n; ++i) p[i * r + c] = static_cast<T>(column[i] / norm);
  }
}

class PowerSgd : public BucketHook {
 public:
  explicit PowerSgd(PowerSgdOptions options) : options_(options) {}

  std::string name() const override {
    return fmt::format("PowerSGD of rank {}, seed {}", options_.rank, options_.seed);
  }

  void prepare(std::span<const GradientBucket> buckets, Communicator& communicator) override {
    messages_.clear();
    for (const GradientBucket& bucket : buckets) {
      const Tensor& flat = bucket.flat;
      if (flat.dtype() != Dtype::float32 && flat.dtype() != Dtype::float64) {
        wrong_dtype("power_sgd", "float32 or float64", flat.dtype());
      }
      int64_t first = 0, second = 0;
      for (const auto& [name, gradient] : bucket.gradients) {
        const auto [rows, columns, r] = size_of(gradient);
        first += r > 0 ? rows * r : gradient.numel();
        second += columns * r;
        if (r == 0 || kept_.contains(name)) continue;
        kept_[name] = {zeros({rows, columns}, {flat.dtype(), flat.device()}), Tensor()};
      }
      const TensorOptions like{flat.dtype(), flat.device()};
      messages_.push_back({communicator.shared_zeros({first}, like, bucket.tag),
                           communicator.shared_zeros({second}, like, bucket.tag)});
    }
    make_first_guesses(buckets);
  }

  std::optional<Work> round(int round, const GradientBucket& bucket,
                            Communicator& communicator) override {
    const NoGrad guard;
    const auto& [first, second] = messages_[bucket.number];
    if (round == 0) {
      multiply_by_q(bucket, first);
      return communicator.all_reduce(first, Reduce::sum, "P of " + bucket.tag);
    }
    if (round == 1) {
      multiply_by_p(bucket, first, second);
      return communicator.all_reduce(second, Reduce::sum, "Q of " + bucket.tag);
    }
    decompress(bucket, first, second);
    return std::nullopt;
  }

  Groups state(const Communicator& communicator) const override {
    Pieces pieces;
    for (const auto& [name, kept] : kept_) {
      pieces.push_back(whole(name + ".q", kept.q));
      pieces.push_back(
          of_rank(name + ".error", kept.error, communicator.rank(), communicator.size()));
    }
    return {{kGroup, pieces}};
  }

  void load(const std::string& folder, const Manifest& manifest,
            Communicator& communicator) override {
    if (!manifest.groups.contains(kGroup)) return;  // it was saved without PowerSGD
    const NoGrad guard;
    Pieces wanted;
    std::vector<std::pair<Tensor, Tensor>> more;  // errors of further old ranks, and where to
    for (const auto& [name, kept] : kept_) {
      wanted.push_back(whole(name + ".q", kept.q));
      for (int old = communicator.rank(); old < manifest.ranks; old += communicator.size()) {
        const bool first = old == communicator.rank();
        const Tensor error = first ? kept.error : empty_like(kept.error);
        wanted.push_back(of_rank(name + ".error", error, old, manifest.ranks));
        if (!first) more.emplace_back(error, kept.error);
      }
    }
    distributed::load(folder, manifest, {{kGroup, wanted}}, communicator);
    for (const auto& [error, sum] : more) copy_elements(sum + error, sum);
  }

 private:
  struct Size {
    int64_t rows, columns, r;  // 1, its elements, 0 for a gradient that is sent as it is
  };
  struct Kept {
    Tensor error;  // [rows, columns], of this rank
    Tensor q;      // [columns, r], of the last window
  };
  struct Messages {
    Tensor first;   // every P, or the gradient itself
    Tensor second;  // every Q
  };

  Size size_of(const Tensor& gradient) const {
    if (gradient.rank() >= 2 && gradient.numel() > 0) {
      const int64_t rows = gradient.size(0), columns = gradient.numel() / rows;
      const int64_t r = std::min({options_.rank, rows, columns});
      if ((rows + columns) * r < rows * columns) return {rows, columns, r};
    }
    return {1, gradient.numel(), 0};
  }

  /// A matrix over the elements of `flat` from `offset` on, which moves on.
  static Tensor take(const Tensor& flat, int64_t& offset, int64_t rows, int64_t columns) {
    Layout layout = Layout::dense({rows, columns});
    layout.offset = std::exchange(offset, offset + rows * columns);
    return view_of(flat, layout);
  }

  /// Random Q for the first window, which depend on the names only.
  void make_first_guesses(std::span<const GradientBucket> buckets) {
    std::map<std::string, Tensor> gradients;
    for (const GradientBucket& bucket : buckets) {
      gradients.insert(bucket.gradients.begin(), bucket.gradients.end());
    }
    uint64_t number = 0;
    for (auto& [name, kept] : kept_) {
      Generator generator = Generator(options_.seed).fork(number++);
      if (kept.q.defined()) continue;
      const Tensor& gradient = gradients.at(name);
      const Size size = size_of(gradient);
      kept.q =
          randn({size.columns, size.r}, 0, 1, {gradient.dtype(), gradient.device()}, generator);
    }
  }

  void multiply_by_q(const GradientBucket& bucket, const Tensor& first) {
    int64_t at = 0;
    for (const auto& [name, gradient] : bucket.gradients) {
      const auto [rows, columns, r] = size_of(gradient);
      if (r == 0) {
        copy_elements(reshape(gradient, {1, columns}), take(first, at, 1, columns));
        continue;
      }
      const Kept& kept = kept_.at(name);
      const Tensor m = reshape(gradient, {rows, columns});  // stays in the bucket for round 1
      copy_elements(m + kept.error, m);
      copy_elements(matmul(m, kept.q), take(first, at, rows, r));
    }
  }

  void multiply_by_p(const GradientBucket& bucket, const Tensor& first, const Tensor& second) {
    int64_t p_at = 0, q_at = 0;
    for (const auto& [name, gradient] : bucket.gradients) {
      const auto [rows, columns, r] = size_of(gradient);
      if (r == 0) {
        copy_elements(take(first, p_at, 1, columns), reshape(gradient, {1, columns}));
        continue;
      }
      const Tensor p = take(first, p_at, rows, r), m = reshape(gradient, {rows, columns});
      visit_floating(p.dtype(), "power_sgd", [&, rows = rows, r = r]<class T>() {
        orthonormalize(p.mutable_data<T>(), rows, r, Generator(options_.seed));
      });
      const Tensor q = matmul(transpose(m, 0, 1), p);
      keep_if_finite(m - matmul(p, transpose(q, 0, 1)), kept_.at(name).error);
      copy_elements(q, take(second, q_at, columns, r));
    }
  }

  void decompress(const GradientBucket& bucket, const Tensor& first, const Tensor& second) {
    int64_t p_at = 0, q_at = 0;
    for (const auto& [name, gradient] : bucket.gradients) {
      const auto [rows, columns, r] = size_of(gradient);
      if (r == 0) {
        p_at += columns;
        continue;
      }
      const Tensor p = take(first, p_at, rows, r), q = take(second, q_at, columns, r);
      copy_elements(matmul(p, transpose(q, 0, 1)), reshape(gradient, {rows, columns}));
      keep_if_finite(q, kept_.at(name).q);
    }
  }

  const PowerSgdOptions options_;
  std::map<std::string, Kept> kept_;
  std::vector<Messages> messages_;  // by bucket
};

}  // namespace

std::shared_ptr<BucketHook> power_sgd(PowerSgdOptions options) {
  if (options.rank < 1)
    raise<ValueError>("[power_sgd] the rank must be 1 or more, got {}", options.rank);
  return std::make_shared<PowerSgd>(options);
}

}  // namespace capstan::distributed

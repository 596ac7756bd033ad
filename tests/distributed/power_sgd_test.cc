// PowerSGD against the paper's algorithm written down slowly, for one rank that has all gradients.
#include "distributed/power_sgd.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <mutex>

#include "core/error.h"
#include "core/random.h"
#include "distributed/checkpoint/saver.h"
#include "distributed/comm/self.h"
#include "distributed/comm/thread.h"
#include "distributed/ddp.h"
#include "tests/distributed/ddp_models.h"
#include "tests/testing/files.h"

namespace capstan::distributed {
namespace {

constexpr int64_t kRows = 11, kColumns = 9, kRank = 2;

/// A large matrix, one that is not worth compressing, and a vector.
struct Three : nn::Module {
  nn::Parameter big{zeros({kRows, 3, 3}, {.dtype = Dtype::float64})};
  nn::Parameter small{zeros({2, 2}, {.dtype = Dtype::float64})};
  nn::Parameter bias{zeros({4}, {.dtype = Dtype::float64})};
  CAPSTAN_MODULE(Three, big, small, bias)
  /// The gradients are the arguments.
  Tensor forward(const Tensor& a, const Tensor& b, const Tensor& c) {
    return sum(big * a) + sum(small * b) + sum(bias * c);
  }
};

Tensor numbers(const Shape& shape, uint64_t seed) {
  Generator generator(seed);
  return randn(shape, 0, 1, {.dtype = Dtype::float64}, generator);
}

struct Gradients {
  Tensor big, small, bias;
  Gradients(int step, int rank)
      : big(numbers({kRows, 3, 3}, 1000 * step + 10 * rank + 1)),
        small(numbers({2, 2}, 1000 * step + 10 * rank + 2)),
        bias(numbers({4}, 1000 * step + 10 * rank + 3)) {}
};

using Matrix = std::vector<std::vector<double>>;

Matrix product(const Matrix& a, const Matrix& b) {
  Matrix c(a.size(), std::vector<double>(b[0].size()));
  for (size_t i = 0; i < a.size(); ++i)
    for (size_t j = 0; j < b[0].size(); ++j)
      for (size_t k = 0; k < b.size(); ++k) c[i][j] += a[i][k] * b[k][j];
  return c;
}

Matrix transposed(const Matrix& a) {
  Matrix t(a[0].size(), std::vector<double>(a.size()));
  for (size_t i = 0; i < a.size(); ++i)
    for (size_t j = 0; j < a[0].size(); ++j) t[j][i] = a[i][j];
  return t;
}

void orthonormalize(Matrix& p) {
  for (size_t c = 0; c < p[0].size(); ++c) {
    for (size_t e = 0; e < c; ++e) {
      double along = 0;
      for (auto& row : p) along += row[c] * row[e];
      for (auto& row : p) row[c] -= along * row[e];
    }
    double squares = 0;
    for (auto& row : p) squares += row[c] * row[c];
    for (auto& row : p) row[c] /= std::sqrt(squares);
  }
}

/// What the steps deliver for `big`: with mean gradients and errors, since all is linear.
std::vector<Matrix> reference(int ranks, int steps) {
  Generator start = Generator(5).fork(0);
  const Tensor first = randn({kColumns, kRank}, 0, 1, {.dtype = Dtype::float64}, start);
  Matrix q(kColumns, std::vector<double>(kRank)), error(kRows, std::vector<double>(kColumns));
  for (int64_t i = 0; i < kColumns * kRank; ++i) q[i / kRank][i % kRank] = first.data<double>()[i];
  std::vector<Matrix> delivered;
  for (int step = 0; step < steps; ++step) {
    Matrix m = error;
    for (int rank = 0; rank < ranks; ++rank) {
      const Tensor big = Gradients(step, rank).big;
      for (int64_t i = 0; i < kRows * kColumns; ++i)
        m[i / kColumns][i % kColumns] += big.data<double>()[i] / ranks;
    }
    Matrix p = product(m, q);
    orthonormalize(p);
    q = product(transposed(m), p);
    delivered.push_back(product(p, transposed(q)));
    for (int64_t i = 0; i < kRows; ++i)
      for (int64_t j = 0; j < kColumns; ++j) error[i][j] = m[i][j] - delivered.back()[i][j];
  }
  return delivered;
}

TEST_CASE("gradients are those of the algorithm, step after step, on any number of ranks") {
  constexpr int kSteps = 5;
  for (int ranks : {1, 2, 3, 4, 5}) {
    CAPTURE(ranks);
    const std::vector<Matrix> wanted = reference(ranks, kSteps);
    run_ranks(ranks, [&](Communicator& comm) {
      Three model;
      Ddp ddp(model, comm, {.hook = power_sgd({.rank = kRank, .seed = 5})});
      for (int step = 0; step < kSteps; ++step) {
        model.zero_grad();
        const Gradients mine(step, comm.rank());
        ddp.backward(model(mine.big, mine.small, mine.bias), 3);
        const std::vector<double> got = model.big.grad().to_vector<double>();
        for (int64_t i = 0; i < kRows * kColumns; ++i) {
          CHECK(got[i] == doctest::Approx(wanted[step][i / kColumns][i % kColumns]).epsilon(1e-9));
        }
        double small = 0, bias = 0;  // these are sent as they are
        for (int rank = 0; rank < ranks; ++rank) {
          small += Gradients(step, rank).small.data<double>()[3] / ranks;
          bias += Gradients(step, rank).bias.data<double>()[1] / ranks;
        }
        CHECK(model.small.grad().data<double>()[3] == doctest::Approx(small));
        CHECK(model.bias.grad().data<double>()[1] == doctest::Approx(bias));
      }
      const std::vector<double> last = model.big.grad().to_vector<double>();
      const std::string bits(reinterpret_cast<const char*>(last.data()), last.size() * 8);
      CHECK_NOTHROW(comm.agree("gradients", bits));
    });
  }
}

TEST_CASE("a run that goes on from a checkpoint has the bits of one that was not stopped") {
  constexpr int kSteps = 6, kSaved = 3;
  for (int ranks : {1, 2, 3}) {
    const testing::TemporaryFolder folder;
    std::vector<std::vector<double>> whole(kSteps);
    const auto run = [&](Communicator& comm, int first, const auto& after_step) {
      Three model;
      const auto hook = power_sgd({.rank = kRank, .seed = 5});
      Ddp ddp(model, comm, {.hook = hook});
      if (first > 0) hook->load(folder.path(), read_manifest(folder.path(), comm), comm);
      for (int step = first; step < kSteps; ++step) {
        model.zero_grad();
        const Gradients mine(step, comm.rank());
        ddp.backward(model(mine.big, mine.small, mine.bias), 3);
        after_step(step, *hook, model.big.grad().to_vector<double>());
      }
    };
    run_ranks(ranks, [&](Communicator& comm) {
      Saver saver(folder.path(), comm, {.background = false});
      run(comm, 0, [&](int step, BucketHook& hook, const std::vector<double>& big) {
        if (comm.rank() == 0) whole[step] = big;
        if (step == kSaved - 1) saver.save(hook.state(comm));
      });
    });
    run_ranks(ranks, [&](Communicator& comm) {
      run(comm, kSaved, [&](int step, BucketHook&, const std::vector<double>& big) {
        CHECK(big == whole[step]);
      });
    });
  }
}

TEST_CASE("what several ranks had yet to send goes on on another number of ranks") {
  const testing::TemporaryFolder folder;
  std::vector<double> sum(kRows * kColumns), q;
  const auto error_of = [](const BucketHook& hook, const Communicator& comm) {
    return hook.state(comm).at("power_sgd")[1].values.to_vector<double>();
  };
  std::mutex mutex;
  for (const int ranks : {3, 1, 2, 5}) {  // each takes over from the one before
    std::vector<double> got(kRows * kColumns);
    run_ranks(ranks, [&](Communicator& comm) {
      Three model;
      const auto hook = power_sgd({.rank = kRank, .seed = 5});
      Ddp ddp(model, comm, {.hook = hook});
      if (ranks == 3) {
        const Gradients mine(0, comm.rank());
        ddp.backward(model(mine.big, mine.small, mine.bias), 3);
      } else {
        hook->load(folder.path(), read_manifest(folder.path(), comm), comm);
      }
      {
        const std::vector<double> error = error_of(*hook, comm);
        const std::lock_guard lock(mutex);
        for (size_t i = 0; i < error.size(); ++i) got[i] += error[i];
      }
      Saver(folder.path(), comm, {.background = false}).save(hook->state(comm));
    });
    if (ranks == 3) sum = got;
    for (size_t i = 0; i < sum.size(); ++i) CHECK(got[i] == doctest::Approx(sum[i]));
    CHECK(*std::ranges::max_element(got) > 0.01);
  }

  // A checkpoint of a run without it has nothing to take over; one of another rank does not fit.
  const auto alone = make_self();
  Three model;
  const auto hook = power_sgd({.rank = 1});
  const Ddp ddp(model, *alone, {.hook = hook});
  CHECK_THROWS_WITH_AS(hook->load(folder.path(), read_manifest(folder.path()), *alone),
                       doctest::Contains("big.q is float64 [9, 2] there and float64 [9, 1] here"),
                       SharedError);
  Saver(folder.path(), *alone, {.background = false}).save({});
  CHECK_NOTHROW(hook->load(folder.path(), read_manifest(folder.path()), *alone));
}

TEST_CASE("what a step leaves out comes later: the sum over steps is that of the gradients") {
  const auto alone = make_self();
  Three model;
  Ddp ddp(model, *alone, {.hook = power_sgd()});
  const Gradients constant(0, 0);
  std::vector<double> sum(kRows * kColumns);
  constexpr int kSteps = 200;
  for (int step = 0; step < kSteps; ++step) {
    model.zero_grad();
    ddp.backward(model(constant.big, constant.small, constant.bias));
    const auto got = model.big.grad().to_vector<double>();
    for (size_t i = 0; i < got.size(); ++i) sum[i] += got[i] / kSteps;
  }
  double distance = 0, length = 0;
  for (size_t i = 0; i < sum.size(); ++i) {
    distance += std::pow(sum[i] - constant.big.data<double>()[i], 2);
    length += std::pow(constant.big.data<double>()[i], 2);
  }
  CHECK(std::sqrt(distance / length) < 0.1);
}

TEST_CASE("a gradient of low rank arrives whole, and one of zeros does no harm") {
  const auto alone = make_self();
  Three model;
  Ddp ddp(model, *alone, {.hook = power_sgd({.rank = 2})});
  const Tensor nothing = zeros({kRows, 3, 3}, {.dtype = Dtype::float64});
  const Gradients other(1, 1);
  const Tensor column = numbers({kRows, 1, 1}, 4), row = numbers({1, 3, 3}, 5);
  const Tensor low = column * row;
  for (int step = 0; step < 3; ++step) {
    model.zero_grad();
    ddp.backward(model(nothing, other.small, other.bias));
    CHECK(model.big.grad().to_vector<double>() == std::vector<double>(kRows * kColumns, 0));
  }
  // The zeros have not killed the factors: they are guessed anew, and good from the second step on,
  // which makes up for the first.
  std::vector<double> total(kRows * kColumns);
  for (int step = 1; step <= 3; ++step) {
    model.zero_grad();
    ddp.backward(model(low, other.small, other.bias));
    const auto got = model.big.grad().to_vector<double>();
    for (size_t i = 0; i < got.size(); ++i) {
      total[i] += got[i];
      if (step > 1) CHECK(total[i] == doctest::Approx(step * low.data<double>()[i]).epsilon(1e-9));
      if (step > 2) CHECK(got[i] == doctest::Approx(low.data<double>()[i]).epsilon(1e-9));
    }
  }
}

TEST_CASE("a gradient that is not finite spoils its own step only") {
  for (int ranks : {1, 2, 3}) {
    CAPTURE(ranks);
    run_ranks(ranks, [&](Communicator& comm) {
      Three model;
      Ddp ddp(model, comm, {.hook = power_sgd({.rank = kRank, .seed = 5})});
      const std::vector<Matrix> wanted = reference(ranks, 4);
      for (int step = 0; step < 4; ++step) {
        if (step == 2) {  // as if it had not been
          const Tensor bad = numbers({kRows, 3, 3}, 7);
          if (comm.rank() == 0) bad.mutable_data<double>()[5] = HUGE_VAL;
          model.zero_grad();
          ddp.backward(model(bad, numbers({2, 2}, 8), numbers({4}, 9)));
          CHECK(!std::isfinite(model.big.grad().to_vector<double>()[5]));
        }
        const Gradients mine(step, comm.rank());
        model.zero_grad();
        ddp.backward(model(mine.big, mine.small, mine.bias));
        const auto got = model.big.grad().to_vector<double>();
        for (int64_t i = 0; i < kRows * kColumns; ++i)
          CHECK(got[i] == doctest::Approx(wanted[step][i / kColumns][i % kColumns]));
      }
    });
  }
}

struct Layer : nn::Module {
  nn::Parameter w{zeros({256, 128})};
  CAPSTAN_MODULE(Layer, w)
  Tensor forward() { return sum(w); }
};

TEST_CASE("bytes: two thin matrices in place of a gradient") {
  CommOptions options{.all_reduce = Algorithm::ring, .share_memory = false};
  const auto bytes = [&](bool compress) {
    int64_t sent = 0;
    run_ranks(
        2,
        [&](Communicator& comm) {
          Layer model;
          Ddp ddp(model, comm, {.hook = compress ? power_sgd() : nullptr});
          ddp.backward(model());
          model.zero_grad();
          const int64_t before = comm.traffic().bytes_sent;
          ddp.backward(model());
          if (comm.rank() == 0) sent = comm.traffic().bytes_sent - before;
        },
        options);
    return sent;
  };
  CHECK(bytes(false) == 256 * 128 * 4 + 64);  // at 2 ranks each sends what it holds
  const int64_t compressed = (256 + 128) * 2 * 4;
  CHECK(bytes(true) >= compressed);
  CHECK(bytes(true) <= compressed + 64);
}

TEST_CASE("what it refuses") {
  CHECK_THROWS_WITH_AS(power_sgd({.rank = 0}), "[power_sgd] the rank must be 1 or more, got 0",
                       ValueError);
  run_ranks(2, [](Communicator& comm) {
    Three model;
    CHECK_THROWS_AS(Ddp(model, comm, {.hook = power_sgd({.rank = 1 + comm.rank()})}), SharedError);
  });
}

}  // namespace
}  // namespace capstan::distributed

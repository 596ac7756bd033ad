// Ddp with ranks as threads: exact averages, whatever the number of ranks, their shares and the
// parts of a window. See also ddp_buckets_test.cc and ddp_misuse_test.cc.
#include "distributed/ddp.h"

#include <doctest/doctest.h>

#include <cmath>
#include <mutex>

#include "autograd/softmax.h"
#include "core/random.h"
#include "distributed/comm/self.h"
#include "distributed/comm/thread.h"
#include "optim/sgd.h"
#include "tests/distributed/ddp_models.h"

namespace capstan::distributed {
namespace {

struct Scalar : nn::Module {
  nn::Parameter w{zeros({})};
  CAPSTAN_MODULE(Scalar, w)
  Tensor forward(const Tensor& x) { return mean(square(w * x - 1.0)); }
};

/// Trains Net for `steps` on `ranks` ranks with windows of `global` samples, each in `parts` parts
/// whose samples are dealt like cards, and returns rank 0's losses followed by its weights.
std::vector<float> train(int ranks, int steps, int64_t global, int parts) {
  std::vector<float> result;
  std::mutex mutex;
  run_ranks(ranks, [&](Communicator& comm) {
    manual_seed(5);
    Net model;
    Ddp ddp(model, comm, {.first_bucket_bytes = 64, .bucket_bytes = 300});
    optim::Sgd sgd(model.parameters(), {.momentum = 0.9});
    std::vector<float> losses;
    for (int step = 0; step < steps; ++step) {
      Generator generator(100 + step);
      const Tensor x = randn({global, 7}, 0, 1, {}, generator);
      std::vector<int64_t> labels;
      for (int64_t i = 0; i < global; ++i) labels.push_back((i * 3 + step) % 5);
      for (int part = 0; part < parts; ++part) {
        std::vector<float> mine;
        std::vector<int64_t> my_labels;
        const int64_t begin = global * part / parts, end = global * (part + 1) / parts;
        for (int64_t i = begin + comm.rank(); i < end; i += comm.size()) {
          for (int64_t f = 0; f < 7; ++f) mine.push_back(x.data<float>()[i * 7 + f]);
          my_labels.push_back(labels[i]);
        }
        const int64_t n = static_cast<int64_t>(my_labels.size());
        const bool last = part == parts - 1;
        if (n > 0) {
          const Tensor loss =
              cross_entropy(model(from_vector(mine, {n, 7})), from_vector(my_labels, {n}));
          ddp.backward(loss, static_cast<double>(n), last ? Sync::yes : Sync::no);
        } else if (last) {
          ddp.backward_without_data();
        }
      }
      losses.push_back(static_cast<float>(ddp.loss()));
      CHECK(ddp.weight() == global);
      sgd.step(0.05);
      sgd.zero_grad();
    }
    const std::vector<float> weights = all_weights(model);
    for (const std::string& other : comm.all_gather_strings(
             {reinterpret_cast<const char*>(weights.data()), weights.size() * 4})) {
      CHECK(std::equal(other.begin(), other.end(), reinterpret_cast<const char*>(weights.data())));
    }
    std::lock_guard lock(mutex);
    if (comm.rank() == 0) {
      result = losses;
      result.insert(result.end(), weights.begin(), weights.end());
    }
  });
  return result;
}

TEST_CASE("the mean is over samples, not over ranks") {
  run_ranks(2, [](Communicator& comm) {
    Scalar model;
    Ddp ddp(model, comm);
    const Tensor x =
        comm.rank() == 0 ? from_vector<float>({1, 2, 3}, {3}) : from_vector<float>({10}, {1});
    ddp.backward(model(x), static_cast<double>(x.numel()));
    CHECK(model.w.grad().item<double>() == doctest::Approx(-8));  // a mean of means would be -12
    CHECK(ddp.loss() == doctest::Approx(1));
    CHECK(ddp.weight() == 4);
  });
}

TEST_CASE("any number of ranks trains like one rank with the whole batch") {
  for (const auto& [global, parts] : {std::pair{12, 1}, {11, 1}, {2, 1}, {12, 3}, {5, 3}}) {
    CAPTURE(global);
    CAPTURE(parts);
    const std::vector<float> alone = train(1, 6, global, 1);
    for (int ranks : {1, 2, 3, 4}) {
      CAPTURE(ranks);
      const std::vector<float> together = train(ranks, 6, global, parts);
      REQUIRE(together.size() == alone.size());
      double largest = 0;
      for (size_t i = 0; i < alone.size(); ++i) {
        largest = std::max<double>(largest, std::abs(alone[i] - together[i]));
      }
      CHECK(largest < 2e-6);
    }
  }
}

TEST_CASE("ranks start with rank 0's numbers") {
  run_ranks(3, [](Communicator& comm) {
    manual_seed(comm.rank());
    Net model;
    Ddp ddp(model, comm);
    manual_seed(0);
    Net zero;
    CHECK(all_weights(model) == all_weights(zero));
  });
}

TEST_CASE("a model may be called several times, and outside Ddp") {
  run_ranks(2, [](Communicator& comm) {
    manual_seed(1);
    Net model;
    Net reference = model.clone();
    Ddp ddp(model, comm);
    const Tensor x = full({2, 7}, comm.rank() + 1);
    ddp.backward(mean(model(x)) + mean(square(model(x * 2.0))));
    for (int r = 0; r < 2; ++r) {
      const Tensor xr = full({2, 7}, r + 1);
      backward((mean(reference(xr)) + mean(square(reference(xr * 2.0)))) * 0.5);
    }
    for (size_t i = 0; i < model.parameters().size(); ++i) {
      const auto got = model.parameters()[i].second.grad().to_vector<float>();
      const auto wanted = reference.parameters()[i].second.grad().to_vector<float>();
      for (size_t k = 0; k < got.size(); ++k)
        CHECK(got[k] == doctest::Approx(wanted[k]).epsilon(1e-4));
    }
  });
}

TEST_CASE("a rank may have no data in any window, the first included") {
  run_ranks(3, [](Communicator& comm) {
    manual_seed(2);
    Net model;
    Net reference = model.clone();
    Ddp ddp(model, comm);
    for (int window = 0; window < 3; ++window) {
      model.zero_grad();
      reference.zero_grad();
      const Tensor x = full({2, 7}, 0.5);
      if (comm.rank() == (window + 2) % 3) {
        ddp.backward(mean(model(x)), 2);
      } else {
        ddp.backward_without_data();
      }
      backward(mean(reference(x)));
      CHECK(ddp.weight() == 2);
      const auto got = model.in.weight.grad().to_vector<float>();
      const auto wanted = reference.in.weight.grad().to_vector<float>();
      for (size_t k = 0; k < got.size(); ++k) CHECK(got[k] == doctest::Approx(wanted[k]));
    }
    model.zero_grad();
    ddp.backward_without_data();  // nobody has data: gradients of 0, not of 0/0
    CHECK(ddp.weight() == 0);
    CHECK(model.out.bias->grad().to_vector<float>() == std::vector<float>(5, 0));
  });
}

TEST_CASE("frozen parameters are left alone") {
  run_ranks(2, [](Communicator& comm) {
    manual_seed(comm.rank());
    Net model;
    require_grad(model.in.weight, false);
    Ddp ddp(model, comm);
    ddp.backward(mean(model(ones({1, 7}))));
    CHECK(!model.in.weight.requires_grad());
    CHECK(model.in.bias->has_grad());
  });
}

TEST_CASE("a Ddp that goes leaves the model as it found it") {
  auto comm = make_self();
  Bare model(2, 3);
  {
    Ddp ddp(model, *comm);
    ddp.backward(model());
  }
  CHECK(model.parts[0].grad().to_vector<float>() == std::vector<float>(3, 1));
  backward(model());  // no hook is left
  CHECK(model.parts[0].grad().to_vector<float>() == std::vector<float>(3, 2));
  CHECK(!accumulator(model.parts[0]).unreduced);
  Ddp again(model, *comm);
  model.zero_grad();
  CHECK_NOTHROW(again.backward(model()));
}

}  // namespace
}  // namespace capstan::distributed

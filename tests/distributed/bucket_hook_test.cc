// Hooks: what they are given, in which rounds they run, what must come out, and division before and
// after the sum.
#include "distributed/bucket_hook.h"

#include <doctest/doctest.h>

#include <cmath>
#include <mutex>

#include "core/error.h"
#include "core/random.h"
#include "distributed/cast_hook.h"
#include "distributed/comm/self.h"
#include "distributed/comm/thread.h"
#include "distributed/ddp.h"
#include "tests/distributed/ddp_models.h"

namespace capstan::distributed {
namespace {

/// A user's own: reduces onto rank 0 and sends the sum back, and keeps a diary.
struct ByRoot : BucketHook {
  std::vector<std::string> diary;

  std::string name() const override { return "by root"; }
  void prepare(std::span<const GradientBucket> buckets, Communicator&) override {
    diary.push_back("prepare " + std::to_string(buckets.size()));
  }
  std::optional<Work> round(int round, const GradientBucket& bucket, Communicator& c) override {
    diary.push_back(std::to_string(bucket.number) + "." + std::to_string(round));
    if (round == 0) return c.reduce(bucket.flat, 0, Reduce::sum, bucket.tag);
    if (round == 1) return c.broadcast(bucket.flat, 0, bucket.tag);
    return std::nullopt;
  }
};

std::vector<float> gradients_of(nn::Module& model) {
  std::vector<float> all;
  for (const auto& [_, parameter] : model.parameters()) {
    for (float g : parameter.grad().to_vector<float>()) all.push_back(g);
  }
  return all;
}

/// Rank r's loss, the mean over 2 r + 1 samples.
Tensor loss_of(Net& model, int rank) {
  Generator generator(rank + 1);
  return mean(square(model(randn({2 * rank + 1, 7}, 0, 1, {}, generator))));
}

/// The gradients on `ranks` ranks, and of one that has all samples.
void compare(int ranks, const std::function<DdpOptions()>& options, double tolerance) {
  run_ranks(ranks, [&](Communicator& comm) {
    CAPTURE(ranks);
    manual_seed(3);
    Net model;
    Net reference = model.clone();
    DdpOptions chosen = options();
    chosen.first_bucket_bytes = chosen.bucket_bytes = 200;
    Ddp ddp(model, comm, chosen);
    double weight = 0, loss = 0;
    Tensor total = scalar(0);
    for (int r = 0; r < ranks; ++r) {
      const Tensor one = loss_of(reference, r);
      total = total + one * (2 * r + 1);
      loss += one.item<double>() * (2 * r + 1);
      weight += 2 * r + 1;
    }
    backward(total / weight);
    const std::vector<float> wanted = gradients_of(reference);
    for (int window = 0; window < 3; ++window) {  // the second has another plan
      model.zero_grad();
      const Tensor mine = loss_of(model, comm.rank());
      ddp.backward(mine, 0.5, Sync::no);  // twice the same, in two passes
      ddp.backward(loss_of(model, comm.rank()), 2 * comm.rank() + 0.5);
      CHECK(ddp.weight() == weight);
      CHECK(ddp.loss() == doctest::Approx(loss / weight).epsilon(1e-6));
      const std::vector<float> got = gradients_of(model);
      for (size_t i = 0; i < got.size(); ++i) {
        CHECK(std::abs(got[i] - wanted[i]) <= tolerance * (std::abs(wanted[i]) + 1e-2));
      }
    }
    model.zero_grad();
    ddp.backward_without_data();
    CHECK(ddp.weight() == 0);
    CHECK(gradients_of(model) == std::vector<float>(wanted.size(), 0));
  });
}

TEST_CASE("whatever takes the sum, and wherever it is divided, the mean is over samples") {
  for (int ranks : {1, 2, 3, 4, 5}) {
    compare(
        ranks, [] { return DdpOptions{}; }, 1e-5);
    compare(
        ranks, [] { return DdpOptions{.hook = std::make_shared<ByRoot>()}; }, 1e-5);
    compare(
        ranks, [] { return DdpOptions{.hook = sum_in(Dtype::float32)}; }, 1e-5);
    compare(
        ranks, [] { return DdpOptions{.hook = sum_in(Dtype::float64)}; }, 1e-5);
    compare(
        ranks, [] { return DdpOptions{.predivide = 7}; }, 1e-5);
    compare(
        ranks, [] { return DdpOptions{.hook = sum_in(Dtype::float64), .predivide = 3}; }, 1e-5);
  }
}

TEST_CASE("rounds: the first when a bucket's turn comes, the others for all buckets in turn") {
  run_ranks(2, [](Communicator& comm) {
    Bare model(3, 10);
    const auto hook = std::make_shared<ByRoot>();
    Ddp ddp(model, comm, {.first_bucket_bytes = 0, .bucket_bytes = 0, .hook = hook});
    const std::vector<std::string> wanted = {"prepare 3", "0.0", "1.0", "2.0", "0.1",      "1.1",
                                             "2.1",       "0.2", "1.2", "2.2", "prepare 3"};
    ddp.backward(model());
    CHECK(hook->diary == wanted);
  });
}

/// Keeps what it was given, and lets it be.
struct Witness : BucketHook {
  std::vector<GradientBucket> seen;
  std::string name() const override { return "witness"; }
  std::optional<Work> round(int, const GradientBucket& bucket, Communicator&) override {
    seen.push_back(bucket);
    return std::nullopt;
  }
};

TEST_CASE("a hook sees this rank's part of the mean, by name, and may be done at once") {
  const auto alone = make_self();
  Bare model(3, 5);
  const auto hook = std::make_shared<Witness>();
  Ddp ddp(model, *alone, {.hook = hook});
  ddp.backward(model() * 2.0, 8);
  REQUIRE(hook->seen.size() == 2);  // rounds 0 and 1
  const GradientBucket& bucket = hook->seen[0];
  CHECK(bucket.number == 0);
  CHECK(bucket.tag == "bucket 0: parts.2…");
  REQUIRE(bucket.gradients.size() == 3);
  CHECK(bucket.gradients[1].first == "parts.1");
  CHECK(bucket.gradients[1].second.to_vector<float>() == std::vector<float>(5, 2));
}

TEST_CASE("gradients are divided before they can overflow") {
  run_ranks(2, [](Communicator& comm) {
    // The ranks' sums are 2e38 each: together above float32's largest number.
    for (const DdpOptions& options :
         {DdpOptions{.predivide = 4}, DdpOptions{.hook = sum_in(Dtype::float32)}}) {
      Bare model(1, 3);
      Ddp ddp(model, comm, options);
      ddp.backward(model() * 1e38, 2);
      CHECK(model.parts[0].grad().to_vector<float>() == std::vector<float>(3, 1e38f));
    }
    Bare model(1, 3);
    Ddp ddp(model, comm);
    ddp.backward(model() * 1e38, 2);
    CHECK(std::isinf(model.parts[0].grad().to_vector<float>()[0]));
  });
}

TEST_CASE("what cannot be") {
  const auto alone = make_self();
  Bare model(1, 3);
  for (double factor : {0.0, -1.0, std::nan(""), HUGE_VAL}) {
    CHECK_THROWS_WITH_AS(Ddp(model, *alone, {.predivide = factor}),
                         doctest::Contains("predivided by a number above 0"), ValueError);
  }
  const std::string text = "virtual shards make sums that do not depend on the ranks";
  CHECK_THROWS_WITH_AS(Ddp(model, *alone, {.virtual_shards = 2, .predivide = 2}),
                       doctest::Contains(text.c_str()), ValueError);
  CHECK_THROWS_WITH_AS(Ddp(model, *alone, {.virtual_shards = 2, .hook = sum_in(Dtype::float64)}),
                       doctest::Contains(text.c_str()), ValueError);
  CHECK_THROWS_AS(sum_in(Dtype::int32), DtypeError);
  run_ranks(2, [](Communicator& comm) {
    Bare mine(1, 3);
    CHECK_THROWS_WITH_AS(
        Ddp(mine, comm, {.hook = sum_in(comm.rank() == 0 ? Dtype::float32 : Dtype::float64)}),
        doctest::Contains("the options of Ddp must be the same on all ranks"), SharedError);
  });
}

}  // namespace
}  // namespace capstan::distributed

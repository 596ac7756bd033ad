// Ddp with ranks as threads: exact averages, windows, buckets in step with the communicator's
// counters, and every way of misusing it.
#include "distributed/ddp.h"

#include <doctest/doctest.h>

#include <cmath>
#include <memory>
#include <mutex>

#include "autograd/elementwise.h"
#include "autograd/reduce.h"
#include "autograd/softmax.h"
#include "core/random.h"
#include "distributed/comm/self.h"
#include "distributed/comm/thread.h"
#include "nn/layers.h"
#include "nn/linear.h"
#include "optim/sgd.h"

namespace capstan::distributed {
namespace {

struct Net : nn::Module {
  nn::Linear in{7, 13}, out{13, 5};
  CAPSTAN_MODULE(Net, in, out)
  Tensor forward(const Tensor& x) { return out(relu(in(x))); }
};

/// A model of bare parameters; its loss is the sum of all their elements.
struct Bare : nn::Module {
  std::vector<nn::Parameter> parts;
  CAPSTAN_MODULE(Bare, parts)
  Bare(int count, int64_t elements, Dtype dtype = Dtype::float32) {
    for (int i = 0; i < count; ++i) parts.emplace_back(ones({elements}, {.dtype = dtype}));
  }
  Tensor forward() {
    Tensor total = sum(parts[0]);
    for (size_t i = 1; i < parts.size(); ++i) total = total + sum(parts[i]);
    return total;
  }
};

struct Scalar : nn::Module {
  nn::Parameter w{zeros({})};
  CAPSTAN_MODULE(Scalar, w)
  Tensor forward(const Tensor& x) { return mean(square(w * x - 1.0)); }
};

struct Wide : nn::Module {
  std::vector<nn::Linear> layers;
  CAPSTAN_MODULE(Wide, layers)
  Wide() {
    for (int i = 0; i < 4; ++i) layers.emplace_back(2048, 2048);
  }
  Tensor forward(Tensor x) {
    for (nn::Linear& layer : layers) x = layer(x);
    return mean(x);
  }
};

struct Crossed : nn::Module {
  nn::Linear last{4, 2}, first{3, 4};
  CAPSTAN_MODULE(Crossed, last, first)
  Tensor forward(const Tensor& x) { return mean(last(first(x))); }
};

struct Mixed : nn::Module {
  nn::Parameter a{ones({3})}, b{ones({5}, {.dtype = Dtype::float64})}, c{ones({2})};
  CAPSTAN_MODULE(Mixed, a, b, c)
  Tensor forward() { return cast(sum(a) + sum(c), Dtype::float64) + sum(b); }
};

std::vector<float> all_weights(nn::Module& model) {
  std::vector<float> values;
  for (const auto& [_, p] : model.parameters()) {
    for (float v : p.to_vector<float>()) values.push_back(v);
  }
  return values;
}

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

TEST_CASE("all-reduces a step: one a bucket, and one a window") {
  run_ranks(2, [](Communicator& comm) {
    for (const auto& [limit, expected] :
         {std::pair<int64_t, int64_t>{1 << 20, 1}, {200, 2}, {0, 10}}) {
      Bare model(10, 10);
      Ddp ddp(model, comm, {.first_bucket_bytes = limit, .bucket_bytes = limit});
      for (int step = 0; step < 3; ++step) {
        model.zero_grad();
        const int64_t before = comm.traffic().collectives;
        ddp.backward(model());
        if (step > 0) CHECK(comm.traffic().collectives - before == expected);
      }
      model.zero_grad();
      const int64_t before = comm.traffic().collectives;
      for (int i = 0; i < 3; ++i) ddp.backward(model(), Sync::no);
      ddp.backward(model());
      CHECK(comm.traffic().collectives - before == expected);
      CHECK(model.parts[3].grad().to_vector<float>() == std::vector<float>(10, 1));
    }
  });
}

TEST_CASE("buckets follow the true order after the first window") {
  auto comm = make_self();
  Wide model;
  Ddp ddp(model, *comm);
  ddp.backward(model(ones({1, 2048})));
  const NamedTensors parameters = model.parameters();
  std::vector<double> sizes;
  for (const auto& bucket : ddp.reducer().plan()) {
    int64_t bytes = 0;
    for (int p : bucket) bytes += parameters[p].second.bytes();
    sizes.push_back(static_cast<double>(bytes) / (1 << 20));
  }
  REQUIRE(sizes.size() == 3);
  CHECK(sizes[0] == doctest::Approx(16.008).epsilon(1e-4));
  CHECK(sizes[1] == doctest::Approx(32.016).epsilon(1e-4));
  CHECK(sizes[2] == doctest::Approx(16.008).epsilon(1e-4));
}

TEST_CASE(
    "the order of use, not of registration, decides the plan, and gradients survive the move") {
  run_ranks(3, [](Communicator& comm) {
    Crossed model;
    Ddp ddp(model, comm, {.first_bucket_bytes = 0, .bucket_bytes = 0});
    CHECK(ddp.reducer().plan()[0] == std::vector<int>{3});
    ddp.backward(model(ones({2, 3})));
    CHECK(ddp.reducer().plan() == BucketPlan{{1}, {0}, {3}, {2}});
    CHECK(model.last.bias->grad().to_vector<float>() == std::vector<float>{0.5, 0.5});
  });
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

TEST_CASE("gradients that were not reduced cannot be stepped on") {
  auto comm = make_self();
  Net model;
  Ddp ddp(model, *comm);
  optim::Sgd sgd(model.parameters());
  const std::vector<float> before = all_weights(model);
  const auto loss = [&] { return mean(model(ones({1, 7}))); };

  ddp.backward(loss(), Sync::no);
  CHECK_THROWS_WITH_AS(sgd.step(0.1), doctest::Contains("'in.weight' is this rank's share only"),
                       GradientError);
  CHECK(all_weights(model) == before);
  ddp.backward(loss());
  CHECK_NOTHROW(sgd.step(0.1));

  SUBCASE("a second window needs zero_grad()") {
    CHECK_THROWS_WITH_AS(ddp.backward(loss()), doctest::Contains("call zero_grad() after step()"),
                         GradientError);
    sgd.zero_grad();
    CHECK_NOTHROW(ddp.backward(loss()));
  }
  SUBCASE("a backward past the Ddp is noticed by step() and by the Ddp") {
    sgd.zero_grad();
    backward(loss());
    CHECK_THROWS_AS(sgd.step(0.1), GradientError);
    CHECK_THROWS_WITH_AS(ddp.backward(loss()), doctest::Contains("this Ddp did not run"),
                         GradientError);
    sgd.zero_grad();
    CHECK_NOTHROW(ddp.backward(loss()));
  }
  SUBCASE("zero_grad() in the middle of a window starts it anew") {
    sgd.zero_grad();
    ddp.backward(loss(), 5, Sync::no);
    sgd.zero_grad();
    ddp.backward(loss(), 2);
    CHECK(ddp.weight() == 2);
  }
}

TEST_CASE("a parameter that the loss does not use is named, or filled with zeros") {
  auto comm = make_self();
  Net model;
  const auto partial = [&] { return mean(model.in(ones({1, 7}))); };
  {
    Ddp ddp(model, *comm);
    CHECK_THROWS_WITH_AS(ddp.backward(partial()),
                         doctest::Contains("does not depend on: out.weight out.bias"),
                         GradientError);
    model.zero_grad();
    // Used earlier in the window is used.
    ddp.backward(mean(model(ones({1, 7}))), Sync::no);
    CHECK_NOTHROW(ddp.backward(partial()));
    model.zero_grad();
  }
  Ddp ddp(model, *comm, {.unused = Unused::zero_fill});
  ddp.backward(partial());
  CHECK(model.out.bias->grad().to_vector<float>() == std::vector<float>(5, 0));
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

TEST_CASE("a parameter frozen after the Ddp attached is an error, and the Ddp can go") {
  auto comm = make_self();
  Net model;
  Ddp ddp(model, *comm);
  require_grad(model.in.weight, false);
  CHECK_THROWS_WITH_AS(ddp.backward(mean(model(ones({1, 7})))), doctest::Contains("off the tape"),
                       GradientError);
}

TEST_CASE("a model with nothing to train is refused") {
  auto comm = make_self();
  Bare model(1, 3);
  require_grad(model.parts[0], false);
  CHECK_THROWS_WITH_AS(Ddp(model, *comm), "[reducer] the model has no parameter to train",
                       ValueError);
}

TEST_CASE("weights must be above zero") {
  auto comm = make_self();
  Bare model(1, 3);
  Ddp ddp(model, *comm);
  for (double weight : {0.0, -1.0, std::nan(""), HUGE_VAL}) {
    CHECK_THROWS_WITH_AS(ddp.backward(model(), weight),
                         doctest::Contains("must be a number above 0"), ValueError);
  }
}

TEST_CASE("dtypes get buckets of their own") {
  run_ranks(2, [](Communicator& comm) {
    Mixed model;
    Ddp ddp(model, comm);
    CHECK(ddp.reducer().plan().size() == 2);
    const double factor = comm.rank() + 1;
    ddp.backward(model() * factor);
    CHECK(model.a.grad().to_vector<float>() == std::vector<float>(3, 1.5f));
    CHECK(model.b.grad().to_vector<double>() == std::vector<double>(5, 1.5));
  });
}

TEST_CASE("models that differ are refused on every rank with one text") {
  std::mutex mutex;
  std::vector<std::string> texts;
  run_ranks(3, [&](Communicator& comm) {
    Bare model(comm.rank() == 2 ? 3 : 2, 4);
    try {
      Ddp ddp(model, comm);
      FAIL("rank accepted the model");
    } catch (const CommError& error) {
      std::lock_guard lock(mutex);
      texts.push_back(error.what());
    }
  });
  REQUIRE(texts.size() == 3);
  CHECK(texts[0] == texts[1]);
  CHECK(texts[0] == texts[2]);
  CHECK(texts[0].find("parameters") != std::string::npos);
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

TEST_CASE("gradients are slices of the buckets, on cache lines") {
  auto comm = make_self();
  Bare model(3, 5);
  Ddp ddp(model, *comm);
  ddp.backward(model());
  for (const nn::Parameter& p : model.parts) {
    CHECK(reinterpret_cast<uintptr_t>(p.grad().address()) % Allocator::kAlignment == 0);
    CHECK(&p.grad().storage() == &model.parts[0].grad().storage());
  }
  // Three slices of a line each, and a line for weight and loss.
  CHECK(ddp.reducer().bucket_bytes() == std::vector<int64_t>{4 * 64});
}

TEST_CASE("overlap is a share of the time under way") {
  run_ranks(2, [](Communicator& comm) {
    Net model;
    Ddp ddp(model, comm);
    ddp.backward(mean(model(ones({1, 7}))));
    CHECK(ddp.overlap().communication > 0);
    CHECK(ddp.overlap().exposed <= ddp.overlap().communication);
    CHECK(ddp.overlap().hidden() >= 0);
    CHECK(ddp.overlap().hidden() <= 1);
  });
  CHECK(Overlap{}.hidden() == 1);
  CHECK(Overlap{.communication = 4, .exposed = 1}.hidden() == 0.75);
}

}  // namespace
}  // namespace capstan::distributed

// DataParallel against the model on one device, what it moves, and what it refuses.
#include "distributed/data_parallel.h"

#include <doctest/doctest.h>

#include <cmath>
#include <mutex>
#include <set>
#include <thread>

#include "autograd/autocast.h"
#include "autograd/elementwise.h"
#include "autograd/engine.h"
#include "autograd/reduce.h"
#include "autograd/softmax.h"
#include "core/error.h"
#include "core/random.h"
#include "distributed/comm/thread.h"
#include "distributed/ddp.h"
#include "nn/batch_norm.h"
#include "nn/layers.h"
#include "nn/linear.h"
#include "tests/distributed/ddp_models.h"

namespace capstan::distributed {
namespace {

std::vector<Device> devices(int count) {
  std::vector<Device> all;
  for (int i = 0; i < count; ++i) all.push_back(Device::cpu(i));
  return all;
}

void check_close(const Tensor& got, const Tensor& wanted) {
  REQUIRE(got.shape() == wanted.shape());
  CHECK(got.device() == wanted.device());
  const auto a = got.to_vector<double>(), b = wanted.to_vector<double>();
  for (size_t i = 0; i < a.size(); ++i) CHECK(std::abs(a[i] - b[i]) < 1e-5);
}

TEST_CASE("outputs and gradients are those of one device, whatever the samples and devices") {
  for (int count : {1, 2, 3, 4}) {
    for (int64_t samples : {0, 1, 2, 7, 8}) {
      CAPTURE(count);
      CAPTURE(samples);
      manual_seed(1);
      Net model;
      Net alone = model.clone();
      DataParallel parallel(model, devices(count));
      for (int step = 0; step < 2; ++step) {
        const Tensor x = randn({samples, 7}), x1 = dense_copy(x);
        require_grad(x);
        require_grad(x1);
        const Tensor y = parallel(x), y1 = alone(x1);
        check_close(y, y1);
        backward(sum(square(y)));
        backward(sum(square(y1)));
        check_close(x.grad(), x1.grad());
        zero_grad(x);
      }
      for (size_t i = 0; i < model.parameters().size(); ++i) {  // of both steps
        check_close(model.parameters()[i].second.grad(), alone.parameters()[i].second.grad());
      }
    }
  }
}

TEST_CASE("it is one node on the tape, and keeps it if asked") {
  Net model;
  DataParallel parallel(model, devices(2));
  const Tensor y = parallel(ones({4, 7}));
  const auto* node = dynamic_cast<const Node*>(y.body().node.get());
  REQUIRE(node);
  CHECK(std::string(node->operation()) == "data_parallel");
  CHECK(node->edges().size() == 5);  // x and four parameters
  const Tensor loss = sum(y);
  backward(loss, {.retain_graph = true});
  const auto once = model.out.weight.grad().to_vector<float>();
  backward(loss);
  const auto twice = model.out.weight.grad().to_vector<float>();
  for (size_t i = 0; i < once.size(); ++i) CHECK(twice[i] == doctest::Approx(2 * once[i]));
  CHECK_THROWS_AS(backward(loss), GradientError);
  CHECK_THROWS_AS(backward(sum(square(parallel(ones({4, 7})))), {.create_graph = true}),
                  GradientError);
  CHECK(!no_grad([&] { return parallel(ones({4, 7})); }).requires_grad());
}

TEST_CASE("bytes: the model travels in every step, there and back") {
  Net model;  // 7 * 13 + 13 + 13 * 5 + 5 = 174 parameters
  const int64_t bytes = 174 * 4;
  for (int n : {1, 2, 3}) {
    DataParallel parallel(model, devices(n));
    for (int step = 1; step <= 2; ++step) {
      backward(sum(parallel(ones({6, 7}))));
      CHECK(parallel.traffic().models == step * (n - 1) * bytes);
      CHECK(parallel.traffic().gradients == step * (n - 1) * bytes);
      CHECK(parallel.traffic().inputs == step * (n - 1) * 6 / n * 7 * 4);
      CHECK(parallel.traffic().outputs == step * 2 * (n - 1) * 6 / n * 5 * 4);
    }
  }
}

/// Notes the devices and threads that it runs on.
struct Spy : nn::Module {
  nn::Linear layer{2, 2}, unused{2, 2};
  CAPSTAN_MODULE(Spy, layer, unused)
  static inline std::mutex mutex;
  static inline std::set<int> seen_devices;
  static inline std::set<std::thread::id> seen_threads;
  Tensor forward(const Tensor& x) {
    const std::lock_guard lock(mutex);
    seen_devices.insert(x.device().index);
    seen_threads.insert(std::this_thread::get_id());
    return layer(x);
  }
};

TEST_CASE("each device runs in its own thread; frozen parameters stay frozen") {
  Spy model;
  require_grad(model.layer.weight, false);
  DataParallel parallel(model, devices(3));
  backward(sum(parallel(ones({5, 2}))));
  CHECK(Spy::seen_devices == std::set<int>{0, 1, 2});
  CHECK(Spy::seen_threads.size() == 3);
  CHECK(!model.layer.weight.requires_grad());
  CHECK(model.layer.bias->grad().to_vector<float>() == std::vector<float>(2, 5));
  CHECK(model.unused.weight.grad().to_vector<float>() == std::vector<float>(4, 0));
}

TEST_CASE("autocasting goes with it") {
  Net model;
  Net alone = model.clone();
  DataParallel parallel(model, devices(2));
  const Tensor x = randn({4, 7});
  const Autocast guard(Dtype::bfloat16);
  const Tensor y = parallel(x), wanted = alone(x);
  CHECK(y.dtype() == Dtype::bfloat16);
  CHECK(y.to_vector<float>() == wanted.to_vector<float>());
}

struct Noisy : nn::Module {
  nn::Dropout dropout{0.5};
  CAPSTAN_MODULE(Noisy, dropout)
  Tensor forward(const Tensor& x) { return dropout(x); }
};

TEST_CASE("devices draw different numbers, again from the same seed") {
  Noisy model;
  DataParallel parallel(model, devices(2));
  manual_seed(4);
  const auto first = parallel(ones({2, 64})).to_vector<float>();
  const auto second = parallel(ones({2, 64})).to_vector<float>();
  CHECK(std::vector(first.begin(), first.begin() + 64) !=
        std::vector(first.begin() + 64, first.end()));
  CHECK(first != second);
  manual_seed(4);
  CHECK(parallel(ones({2, 64})).to_vector<float>() == first);
}

struct Normed : nn::Module {
  nn::BatchNorm1d norm{2};
  nn::Buffer calls{zeros({}), nn::BufferPolicy::local};
  CAPSTAN_MODULE(Normed, norm, calls)
  Tensor forward(const Tensor& x) {
    fill_elements(calls, calls.item<double>() + 1 + x.device().index);
    return norm(x);
  }
};

TEST_CASE("averaged buffers are the replicas' mean by samples, others the primary's") {
  Normed model;
  DataParallel parallel(model, devices(2));
  Generator generator(1);
  const Tensor x = randn({5, 2}, 3, 1, {}, generator);  // 3 and 2
  parallel(x);
  const auto mean_of_all = mean(x, {0}).to_vector<float>();
  for (int c = 0; c < 2; ++c) {
    CHECK(model.norm.running_mean.to_vector<float>()[c] ==
          doctest::Approx(0.1 * mean_of_all[c]).epsilon(1e-5));
  }
  CHECK(model.calls.item<double>() == 1);
  const auto kept = model.norm.running_mean.to_vector<float>();
  model.eval();
  parallel(x);
  CHECK(model.norm.running_mean.to_vector<float>() == kept);
}

TEST_CASE("under Ddp it is a model like any other") {
  run_ranks(2, [](Communicator& comm) {
    manual_seed(1);
    Net model;
    Net alone = model.clone();
    Ddp ddp(model, comm);
    DataParallel parallel(model, devices(2));
    ddp.backward(mean(square(parallel(full({3, 7}, comm.rank() + 1)))), 3);
    backward((mean(square(alone(ones({3, 7})))) + mean(square(alone(full({3, 7}, 2))))) / 2.0);
    check_close(model.in.weight.grad(), alone.in.weight.grad());
  });
}

struct Summing : nn::Module {
  nn::Linear layer{2, 2};
  CAPSTAN_MODULE(Summing, layer)
  Tensor forward(const Tensor& x) { return sum(layer(x)); }
};

TEST_CASE("what it refuses") {
  Net model;
  CHECK_THROWS_WITH_AS(DataParallel(model, {}), doctest::Contains("at least one device"),
                       ValueError);
  CHECK_THROWS_WITH_AS(DataParallel(model, {Device::cpu(0), Device::cpu(1), Device::cpu(1)}),
                       doctest::Contains("cpu:1 is named twice"), ValueError);
  CHECK_THROWS_WITH_AS(DataParallel(model, {Device::cpu(1)}), doctest::Contains("'in.weight'"),
                       DeviceError);
  DataParallel parallel(model, devices(2));
  CHECK_THROWS_AS(parallel(zeros({})), ShapeError);
  CHECK_THROWS_AS(parallel(zeros({2, 7}, {.device = Device::cpu(1)})), DeviceError);
  CHECK_THROWS_AS(parallel(zeros({4, 6})), ShapeError);  // the model's own error, from a thread
  Summing summing;
  CHECK_THROWS_WITH_AS(DataParallel(summing, devices(2))(zeros({4, 2})),
                       doctest::Contains("a row for each of 2 samples"), ShapeError);
}

}  // namespace
}  // namespace capstan::distributed

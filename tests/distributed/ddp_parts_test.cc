// Which parts of a model a Ddp takes care of, and how: parameters that nobody used, that are used
// by many, that are excluded by name; buffers by their declaration; models side by side.
#include <doctest/doctest.h>

#include <cmath>

#include "autograd/checkpoint.h"
#include "autograd/softmax.h"
#include "core/error.h"
#include "core/random.h"
#include "distributed/comm/self.h"
#include "distributed/comm/thread.h"
#include "distributed/ddp.h"
#include "nn/batch_norm.h"
#include "optim/sgd.h"
#include "tests/distributed/ddp_models.h"

namespace capstan::distributed {
namespace {

using Floats = std::vector<float>;

/// Samples of a rank: rank + 1 rows.
Tensor samples(int rank, int64_t columns = 7) {
  Generator generator(rank + 1);
  return randn({rank + 1, columns}, 0, 1, {}, generator);
}

/// The gradients that a window over all ranks' samples must have, from one rank with all of them.
template <class Loss>
void check_against_one_rank(nn::Module& model, nn::Module& reference, int ranks, const Loss& loss) {
  Tensor total = scalar(0);
  double weight = 0;
  for (int r = 0; r < ranks; ++r) {
    total = total + loss(r) * (r + 1);
    weight += r + 1;
  }
  backward(total / weight);
  const NamedTensors got = model.parameters(), wanted = reference.parameters();
  for (size_t i = 0; i < got.size(); ++i) {
    const Floats a = got[i].second.grad().to_vector<float>();
    const Floats b = wanted[i].second.grad().to_vector<float>();
    for (size_t k = 0; k < a.size(); ++k) CHECK(std::abs(a[k] - b[k]) < 1e-5);
  }
}

TEST_CASE("recomputed (checkpointed) parts are reduced once, when they are complete") {
  for (int ranks : {1, 2, 3, 5}) {
    run_ranks(ranks, [&](Communicator& comm) {
      manual_seed(1);
      Net model;
      Net reference = model.clone();
      Ddp ddp(model, comm, {.first_bucket_bytes = 0, .bucket_bytes = 0});
      for (int window = 0; window < 2; ++window) {
        model.zero_grad();
        reference.zero_grad();
        const Tensor h =
            checkpoint([&](const Tensor& x) { return relu(model.in(x)); }, samples(comm.rank()));
        ddp.backward(mean(square(model.out(h))), comm.rank() + 1);
        check_against_one_rank(model, reference, ranks,
                               [&](int r) { return mean(square(reference(samples(r)))); });
      }
    });
  }
}

/// One matrix, used as a layer and, tied, as another's.
struct Tied : nn::Module {
  nn::Linear first{6, 6}, second{6, 6};
  CAPSTAN_MODULE(Tied, first, second)
  Tied() { nn::tie(first.weight, second.weight); }
  Tensor forward(const Tensor& x) { return mean(square(second(relu(first(first(x)))))); }
};

TEST_CASE("reused and tied parameters are reduced once, with all their uses") {
  for (int ranks : {1, 3, 4}) {
    run_ranks(ranks, [&](Communicator& comm) {
      manual_seed(1);
      Tied model;
      Tied reference = model.clone();
      Ddp ddp(model, comm, {.first_bucket_bytes = 0, .bucket_bytes = 0});
      CHECK(ddp.reducer().plan().size() == 3);
      ddp.backward(model(samples(comm.rank(), 6)), comm.rank() + 1);
      check_against_one_rank(model, reference, ranks,
                             [&](int r) { return reference(samples(r, 6)); });
    });
  }
}

TEST_CASE("a parameter that no rank used can be left without a gradient") {
  for (int ranks : {1, 2, 3, 5}) {
    run_ranks(ranks, [&](Communicator& comm) {
      Bare model(3, 2);
      Ddp ddp(model, comm, {.first_bucket_bytes = 0, .bucket_bytes = 0, .unused = Unused::skip});
      optim::Sgd sgd(model.parameters(), {.weight_decay = 0.5});
      const auto use = [&](bool last_rank_uses_two) {
        model.zero_grad();
        Tensor loss = sum(model.parts[0]);
        if (last_rank_uses_two && comm.rank() == ranks - 1) loss = loss + sum(model.parts[2]);
        ddp.backward(loss);
      };
      use(true);
      CHECK(model.parts[0].has_grad());
      CHECK(!model.parts[1].has_grad());
      CHECK(model.parts[2].grad().to_vector<float>() ==
            Floats(2, 1.0f / static_cast<float>(ranks)));
      sgd.step(0.1);
      CHECK(model.parts[1].to_vector<float>() == Floats(2, 1));  // not even decayed
      CHECK(model.parts[2].to_vector<float>() != Floats(2, 1));
      use(false);
      CHECK(!model.parts[2].has_grad());
      use(true);
      CHECK(model.parts[2].grad().to_vector<float>() ==
            Floats(2, 1.0f / static_cast<float>(ranks)));
    });
  }
}

TEST_CASE("used in an earlier pass of the window is used") {
  run_ranks(2, [](Communicator& comm) {
    Bare model(2, 2);
    Ddp ddp(model, comm, {.unused = Unused::skip});
    ddp.backward(sum(model.parts[comm.rank() == 0 ? 0 : 1]), Sync::no);
    ddp.backward_without_data();
    CHECK(model.parts[0].grad().to_vector<float>() == Floats(2, 0.5));
    CHECK(model.parts[1].grad().to_vector<float>() == Floats(2, 0.5));
  });
}

TEST_CASE("a parameter that is reached without a gradient gets one of 0") {
  run_ranks(2, [](Communicator& comm) {
    Bare model(2, 3);
    Ddp ddp(model, comm, {.first_bucket_bytes = 0, .bucket_bytes = 0});
    ddp.backward(sum(floor(model.parts[0])) + sum(model.parts[1]));
    CHECK(model.parts[0].grad().to_vector<float>() == Floats(3, 0));
    CHECK(model.parts[1].grad().to_vector<float>() == Floats(3, 1));
  });
}

struct WithHead : nn::Module {
  nn::Linear body{4, 3};
  nn::Linear head;
  nn::Buffer seen{zeros({2}), nn::BufferPolicy::averaged};
  CAPSTAN_MODULE(WithHead, body, head, seen)
  explicit WithHead(int64_t outputs) : head(3, outputs) {}
  Tensor forward(const Tensor& x) { return mean(square(head(body(x)))); }
};

TEST_CASE("what is excluded by name stays each rank's own, of any shape") {
  for (int ranks : {1, 2, 3}) {
    run_ranks(ranks, [&](Communicator& comm) {
      manual_seed(comm.rank());
      const int rank = comm.rank();
      WithHead model(rank + 1);
      WithHead alone = model.clone();
      fill_elements(model.seen, rank);
      Ddp ddp(model, comm, {.exclude = {"head.*", "se?n"}});
      CHECK(all_weights(model.head) == all_weights(alone.head));
      if (rank > 0) CHECK(all_weights(model.body) != all_weights(alone.body));
      copy_elements(model.body.weight, alone.body.weight);
      copy_elements(*model.body.bias, *alone.body.bias);

      optim::Sgd sgd(model.parameters());
      ddp.backward(model(samples(rank, 4)), 1, Sync::no);
      CHECK_THROWS_AS(sgd.step(0.1), GradientError);
      ddp.backward(model(samples(rank + 7, 4)), 3);
      backward((alone(samples(rank, 4)) + alone(samples(rank + 7, 4)) * 3.0) / 4.0);
      const Floats got = model.head.weight.grad().to_vector<float>();
      const Floats wanted = alone.head.weight.grad().to_vector<float>();
      for (size_t i = 0; i < got.size(); ++i) CHECK(got[i] == doctest::Approx(wanted[i]));
      CHECK(model.seen.to_vector<float>() == Floats(2, static_cast<float>(rank)));
      CHECK_NOTHROW(ddp.check_replicas());
      CHECK_NOTHROW(sgd.step(0.1));
      model.zero_grad();
      ddp.backward_without_data();
      CHECK(!model.head.weight.has_grad());
    });
  }
  const auto self = make_self();
  WithHead model(2);
  CHECK_THROWS_WITH_AS(Ddp(model, *self, {.exclude = {"heads.*"}}),
                       doctest::Contains("[exclude] no name fits the pattern 'heads.*'"),
                       CommError);
}

struct Buffers : nn::Module {
  nn::Parameter w{ones({2})};
  nn::Buffer mask{zeros({3}), nn::BufferPolicy::replicated};
  nn::Buffer mean32{zeros({2, 2}), nn::BufferPolicy::averaged};
  nn::Buffer mean64{zeros({}, {.dtype = Dtype::float64}), nn::BufferPolicy::averaged};
  nn::Buffer cache{zeros({3}), nn::BufferPolicy::local};
  CAPSTAN_MODULE(Buffers, w, mask, mean32, mean64, cache)
  Tensor forward() { return sum(w); }
};

TEST_CASE("buffers: rank 0's at the start; then own, the average of each window, or as they are") {
  for (int ranks : {1, 2, 3, 4, 5}) {
    run_ranks(ranks, [&](Communicator& comm) {
      Buffers model;
      const int rank = comm.rank();
      for (const auto& [_, buffer] : model.buffers()) fill_elements(buffer, rank + 5);
      Ddp ddp(model, comm);
      CHECK(model.mask.to_vector<float>() == Floats(3, 5));
      CHECK(model.mean32.to_vector<float>() == Floats(4, 5));
      CHECK(model.cache.to_vector<float>() == Floats(3, static_cast<float>(rank + 5)));

      // In a window each rank's own moves by its rank; rank 0 has no samples.
      const auto move = [&] {
        fill_elements(model.mean32, 10 * rank);
        fill_elements(model.mean64, rank);
      };
      move();
      if (rank == 0) {
        ddp.backward_without_data(Sync::no);
      } else {
        ddp.backward(model(), 2.0 * rank, Sync::no);
      }
      CHECK(model.mean64.item<double>() == rank);  // not before the window ends
      ddp.backward_without_data();
      double total = 0, sum = 0;
      for (int r = 0; r < ranks; ++r) {
        total += r;
        sum += static_cast<double>(r) * r;
      }
      if (ranks == 1) total = 1;  // nobody had samples: as it was
      CHECK(model.mean64.item<double>() == doctest::Approx(sum / total));
      CHECK(model.mean32.to_vector<float>()[3] == doctest::Approx(10 * sum / total));
      CHECK(model.mask.to_vector<float>() == Floats(3, 5));
      CHECK(model.cache.to_vector<float>() == Floats(3, static_cast<float>(rank + 5)));
      CHECK_NOTHROW(ddp.check_replicas());
      if (ranks > 1 && rank == 1) fill_elements(model.mask, 0);
      if (ranks > 1) CHECK_THROWS_AS(ddp.check_replicas(), SharedError);
    });
  }
}

struct Counter : nn::Module {
  nn::Parameter w{ones({2})};
  nn::Buffer count{zeros({}, {.dtype = Dtype::int64}), nn::BufferPolicy::averaged};
  CAPSTAN_MODULE(Counter, w, count)
  Tensor forward() { return sum(w); }
};

TEST_CASE("a count has no average") {
  run_ranks(2, [](Communicator& comm) {
    Counter model;
    CHECK_THROWS_WITH_AS(Ddp(model, comm), doctest::Contains("'count' is int64"), DtypeError);
  });
}

struct Normed : nn::Module {
  nn::Linear in{7, 4};
  nn::BatchNorm1d norm{4};
  CAPSTAN_MODULE(Normed, in, norm)
  Tensor forward(const Tensor& x) { return mean(square(norm(in(x)))); }
};

TEST_CASE("BatchNorm's running statistics are equal after each window, without being asked") {
  run_ranks(3, [](Communicator& comm) {
    Normed model;
    Ddp ddp(model, comm, {.check_replicas = 1});
    for (int window = 0; window < 3; ++window) {
      model.zero_grad();
      CHECK_NOTHROW(ddp.backward(model(samples(comm.rank() + 2 + window)), comm.rank() + 3));
    }
    CHECK(model.norm.running_mean.to_vector<float>() != Floats(4, 0));
  });
}

TEST_CASE("several models on one communicator, as in adversarial training") {
  for (int ranks : {1, 2, 3}) {
    run_ranks(ranks, [&](Communicator& comm) {
      manual_seed(1);
      nn::Linear maker(3, 7), judge(7, 1);
      nn::Linear maker1 = maker.clone(), judge1 = judge.clone();
      Ddp maker_ddp(maker, comm), judge_ddp(judge, comm);
      const auto judge_loss = [](nn::Linear& m, nn::Linear& j, int r) {
        return mean(square(j(detach(m(samples(r, 3)))))) + mean(j(samples(r)));
      };
      const auto maker_loss = [](nn::Linear& m, nn::Linear& j, int r) {
        return mean(square(j(m(samples(r, 3)))));
      };
      for (int step = 0; step < 2; ++step) {
        judge.zero_grad();
        judge1.zero_grad();
        judge_ddp.backward(judge_loss(maker, judge, comm.rank()), comm.rank() + 1);
        check_against_one_rank(judge, judge1, ranks,
                               [&](int r) { return judge_loss(maker1, judge1, r); });
        // The maker's backward runs through the judge, too, whose gradients are then good for
        // nothing.
        maker.zero_grad();
        maker1.zero_grad();
        judge.zero_grad();
        maker_ddp.backward(maker_loss(maker, judge, comm.rank()), comm.rank() + 1);
        check_against_one_rank(maker, maker1, ranks,
                               [&](int r) { return maker_loss(maker1, judge1, r); });
        CHECK_THROWS_WITH_AS(judge_ddp.backward(judge_loss(maker, judge, comm.rank())),
                             doctest::Contains("this strategy did not run"), GradientError);
      }
    });
  }
}

}  // namespace
}  // namespace capstan::distributed

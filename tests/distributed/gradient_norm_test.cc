// Sums over ranks that do not depend on them.
#include "distributed/gradient_norm.h"

#include <doctest/doctest.h>

#include "core/random.h"
#include "distributed/comm/thread.h"
#include "optim/measures.h"

namespace capstan::distributed {
namespace {

TEST_CASE("a sum of squares has the same bits however the numbers are spread") {
  for (const Dtype dtype : {Dtype::float32, Dtype::float64, Dtype::bfloat16, Dtype::float16}) {
    constexpr int64_t kCount = 70'001;
    Generator generator(11);
    const Tensor all = randn({kCount}, 0, 1, {.dtype = dtype}, generator);
    ExactSum whole;
    optim::add_squares(all, whole);
    double plain = 0;
    for (double value : all.to_vector<double>()) plain += value * value;
    CHECK(whole.value() == doctest::Approx(plain).epsilon(1e-12));
    for (int ranks = 1; ranks <= 5; ++ranks) {
      run_ranks(ranks, [&](Communicator& comm) {
        const int64_t begin = kCount * comm.rank() / ranks,
                      end = kCount * (comm.rank() + 1) / ranks;
        ExactSum mine;
        optim::add_squares(view_of(all, all.layout().sliced(0, begin, end)), mine);
        CHECK(sum_over(mine, comm, "squares").digits() == whole.digits());
      });
    }
  }
  ExactSum none;
  optim::add_squares(empty({0}), none);
  CHECK(none.value() == 0);
  CHECK_THROWS_WITH_AS(optim::add_squares(empty({1}, {.device = Device::meta()}), none),
                       "[add_squares] takes a tensor on a CPU, got one on meta", DeviceError);
}

TEST_CASE("a rank with a number that is not finite is seen by all") {
  run_ranks(3, [](Communicator& comm) {
    ExactSum mine;
    mine.add(comm.rank() == 1 ? HUGE_VAL : 1);
    CHECK(std::isnan(sum_over(mine, comm, "squares").value()));
  });
}

}  // namespace
}  // namespace capstan::distributed

#include "data/stream.h"

#include <doctest/doctest.h>

#include "core/error.h"

using namespace capstan;
using namespace capstan::data;

namespace {

using Numbers = std::vector<int64_t>;

/// epoch * 100, epoch * 100 + 1, ...: `count` samples that are their own labels.
class Counting : public Stream {
 public:
  Counting(int64_t count, int64_t epoch) : next_(epoch * 100), end_(next_ + count) {}
  Batch read(int64_t count) override {
    Numbers numbers;
    for (; count > 0 && next_ < end_; --count) numbers.push_back(next_++);
    const Tensor tensor = from_vector(numbers, {std::ssize(numbers)});
    return {tensor, tensor};
  }

 private:
  int64_t next_, end_;
};

OpenStream counting(int64_t count) {
  return [=](int64_t epoch) { return std::make_unique<Counting>(count, epoch); };
}

/// What each step gives.
std::vector<Numbers> steps(StreamEpoch epoch) {
  std::vector<Numbers> all;
  for (Batch batch; epoch.next(batch);) all.push_back(batch.labels.to_vector<int64_t>());
  return all;
}

}  // namespace

TEST_CASE("a stream is dealt as a data set is, and all ranks take the same steps") {
  const auto of_rank = [](int64_t rank, Tail tail) {
    const StreamLoader loader(counting(9), {.batch = 4, .rank = rank, .ranks = 2, .tail = tail});
    return steps(loader.epoch(0));
  };
  using Steps = std::vector<Numbers>;
  CHECK(of_rank(0, Tail::exact) == Steps{{0, 2}, {4, 6}, {8}});
  CHECK(of_rank(1, Tail::exact) == Steps{{1, 3}, {5, 7}, {}});
  CHECK(of_rank(1, Tail::drop) == Steps{{1, 3}, {5, 7}});
  CHECK(steps(StreamLoader(counting(0), {}).epoch(0)).empty());
}

TEST_CASE("a walk goes on where another stopped") {
  const StreamLoader loader(counting(5000), {.batch = 3, .rank = 1, .ranks = 2});
  const auto whole = steps(loader.epoch(2));
  CHECK(whole[0] == Numbers{201});
  for (const int64_t stop : {1, 700, 1666, 1667, 2000}) {
    StreamEpoch first = loader.epoch(2);
    Batch batch;
    while (first.step() < stop && first.next(batch)) continue;
    const auto rest = steps(loader.epoch(2, first.step()));
    CHECK(rest == std::vector<Numbers>(whole.begin() + first.step(), whole.end()));
  }
}

TEST_CASE("options and streams that are not right") {
  CHECK_THROWS_AS(StreamLoader(counting(1), {.batch = 0}), ValueError);
  CHECK_THROWS_AS(StreamLoader(counting(1), {.rank = 2, .ranks = 2}), ValueError);
  CHECK_THROWS_AS(StreamLoader(counting(1), {.rank = -1}), ValueError);
  CHECK_THROWS_AS(StreamLoader(counting(1), {.tail = Tail::pad}), ValueError);
  const StreamLoader loader(counting(1), {});
  CHECK_THROWS_AS(loader.epoch(-1), ValueError);
  CHECK_THROWS_AS(loader.epoch(0, -1), ValueError);
  struct Careless : Stream {
    Batch read(int64_t) override { return {zeros({3}), zeros({3})}; }
  };
  Batch batch;
  auto epoch = StreamLoader([](int64_t) { return std::make_unique<Careless>(); }, {}).epoch(0);
  CHECK_THROWS_WITH_AS(epoch.next(batch), doctest::Contains("asked for 1 samples, got 3"),
                       ShapeError);
}

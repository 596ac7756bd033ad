#include "data/sampler.h"

#include <algorithm>
#include <numeric>

#include "core/raise.h"
#include "core/random.h"

namespace capstan::data {
namespace {

constexpr uint64_t kShuffle = 0x73687566666c65;  // "shuffle": a stream apart from other uses

}  // namespace

void check(const Deal& deal) {
  if (deal.samples < 0)
    raise<ValueError>("[sampler] samples must be 0 or more, got {}", deal.samples);
  if (deal.batch < 1) raise<ValueError>("[sampler] batch must be 1 or more, got {}", deal.batch);
  if (deal.ranks < 1) raise<ValueError>("[sampler] ranks must be 1 or more, got {}", deal.ranks);
  if (deal.accumulate < 1) {
    raise<ValueError>("[sampler] accumulate must be 1 or more, got {}", deal.accumulate);
  }
  if (deal.batch % deal.accumulate != 0) {
    raise<ValueError>(
        "[sampler] a batch of {} cannot be cut into {} equal parts; choose a multiple of {}",
        deal.batch, deal.accumulate, deal.accumulate);
  }
}

std::vector<int64_t> epoch_order(int64_t samples, bool shuffle, uint64_t seed, int64_t epoch) {
  if (epoch < 0) raise<ValueError>("[sampler] epoch must be 0 or more, got {}", epoch);
  if (shuffle) {
    Generator generator = Generator(seed).fork(kShuffle).fork(static_cast<uint64_t>(epoch));
    return random_permutation(samples, generator);
  }
  std::vector<int64_t> order(static_cast<size_t>(samples));
  std::iota(order.begin(), order.end(), int64_t{0});
  return order;
}

int64_t steps_per_epoch(const Deal& deal) {
  const int64_t whole = deal.samples / deal.batch;
  return deal.tail == Tail::drop || deal.samples % deal.batch == 0 ? whole : whole + 1;
}

int64_t samples_per_epoch(const Deal& deal) {
  return deal.tail == Tail::exact ? deal.samples : steps_per_epoch(deal) * deal.batch;
}

std::vector<int64_t> positions(const Deal& deal, int64_t step, int64_t part, int64_t rank) {
  const int64_t part_size = deal.batch / deal.accumulate;
  const int64_t begin = step * deal.batch + part * part_size;
  const int64_t end = std::min(begin + part_size, samples_per_epoch(deal));
  std::vector<int64_t> out;
  for (int64_t i = begin + rank; i < end; i += deal.ranks) out.push_back(i % deal.samples);
  return out;
}

Progress progress_after(const Deal& deal, int64_t consumed) {
  if (consumed < 0) {
    raise<ValueError>("[sampler] samples consumed must be 0 or more, got {}", consumed);
  }
  const int64_t length = samples_per_epoch(deal);
  if (length == 0) {
    if (consumed == 0) return {};
    raise<ValueError>("[sampler] {} samples were consumed, but an epoch has none", consumed);
  }
  const int64_t rest = consumed % length;
  if (rest % deal.batch != 0) {
    raise<ValueError>(
        "[sampler] {} samples consumed are {} into an epoch of {}: not a whole number of batches "
        "of "
        "{}; resume with the batch that the run had, or at the end of an epoch",
        consumed, rest, length, deal.batch);
  }
  return {consumed / length, rest / deal.batch};
}

}  // namespace capstan::data

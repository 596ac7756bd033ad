// Defines how an epoch's samples are ordered, cut into steps and dealt to ranks: pure functions, so
// that every rank knows what all of them do without a word between them.
//
// An epoch is a row of positions 0, 1, ... in the epoch's order. A step takes the next `batch` of
// them, over all ranks; with accumulation it takes them in `accumulate` equal parts, one forward
// and backward each. Sample i of a part goes to rank i mod ranks. For example 10 samples, batch 4,
// 2 ranks (Tail::exact):
//
//   step 0: 0 1 2 3      rank 0: 0 2      rank 1: 1 3
//   step 1: 4 5 6 7              4 6              5 7
//   step 2: 8 9                  8                9
//
// So a step holds the same samples on any number of ranks, and all ranks take the same number of
// steps, though a part of the last one may be empty for some of them.
#pragma once

#include <cstdint>
#include <vector>

namespace capstan::data {

/// What happens to the last step of an epoch when the samples do not fill it.
enum class Tail {
  exact,  ///< it is smaller: each sample comes once (the only right answer for evaluation)
  pad,    ///< it is filled from the beginning of the epoch's order
  drop,   ///< it is left out
};

/// How an epoch is cut and dealt.
struct Deal {
  int64_t samples = 0;
  int64_t batch = 1;       // samples of a step, over all ranks and parts
  int64_t accumulate = 1;  // parts of a step; must divide batch
  int64_t ranks = 1;
  Tail tail = Tail::exact;
};

/// Throws ValueError for a number below its least value or a batch that cannot be parted.
void check(const Deal& deal);

/// The samples in the order in which `epoch` visits them: 0, 1, ... or a permutation that depends
/// on `seed` and `epoch` alone. Throws ValueError for a negative epoch.
std::vector<int64_t> epoch_order(int64_t samples, bool shuffle, uint64_t seed, int64_t epoch);

/// Steps of an epoch, the same on all ranks.
int64_t steps_per_epoch(const Deal& deal);

/// Samples that an epoch gives out, over all ranks: `samples`, unless the tail is padded or
/// dropped.
int64_t samples_per_epoch(const Deal& deal);

/// Positions, in [0, samples), of a rank's samples in one part of one step; possibly none.
std::vector<int64_t> positions(const Deal& deal, int64_t step, int64_t part, int64_t rank);

/// A place between two steps.
struct Progress {
  int64_t epoch = 0;
  int64_t step = 0;  // steps of that epoch already taken
};

/// Where training stands after `consumed` samples, over all ranks: the only thing that a checkpoint
/// keeps of the loader. Throws ValueError if that is inside a step, which happens when the batch
/// has changed in the middle of an epoch.
Progress progress_after(const Deal& deal, int64_t consumed);

}  // namespace capstan::data

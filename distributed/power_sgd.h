// Defines power_sgd(), a BucketHook that sends two thin matrices in place of each large gradient
// (Vogels, Karimireddy, Jaggi, "PowerSGD: practical low-rank gradient compression for distributed
// optimization", NeurIPS 2019). The algorithm is explained above its code.
#pragma once

#include <cstdint>
#include <memory>

#include "distributed/bucket_hook.h"

namespace capstan::distributed {

struct PowerSgdOptions {
  int64_t rank = 2;   // of what is sent for each gradient; at least 1
  uint64_t seed = 0;  // of the first guesses; the same on all ranks
};

/// Compresses gradients that, seen as matrices [first axis, all others], are larger than the two
/// that replace them; sends the others as they are. For float32 and float64, else DtypeError when
/// a Ddp attaches. Throws ValueError for a rank below 1.
///
/// What it keeps from step to step (as much memory as the gradients) is each rank's own, and goes
/// into checkpoints. A run that goes on on as many ranks has the bits of one that was never
/// stopped; on another number, what old rank r had yet to send is sent by new rank r mod n: all of
/// it still arrives.
std::shared_ptr<BucketHook> power_sgd(PowerSgdOptions options = {});

}  // namespace capstan::distributed

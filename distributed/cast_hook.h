// Defines sum_in(), a BucketHook that adds gradients up in another dtype than their own.
//
// A narrower one halves what travels: bfloat16 keeps the range of float32 and 8 bits of each
// number, float16 keeps 11 bits between 6e-5 and 65504. Every addition between ranks rounds to
// them, so the error grows with the ranks; it is that of one number in 256 (bfloat16) or 2048
// (float16), while gradients differ by more than that from batch to batch. A wider one is for
// models in half precision, whose gradients lose less when the ranks' are added in float32.
#pragma once

#include <memory>

#include "distributed/bucket_hook.h"

namespace capstan::distributed {

/// Sums of gradients in `dtype`. Throws DtypeError unless that is a floating point dtype.
std::shared_ptr<BucketHook> sum_in(Dtype dtype);

}  // namespace capstan::distributed

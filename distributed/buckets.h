// Defines how gradients are grouped into buckets: a pure function, so that every rank can know the
// plan of all, and a test can read it.
//
// One collective a gradient would pay the latency of a message for each bias; one collective for
// all would wait for the last gradient before it sends the first. Buckets are the middle: big
// enough for bandwidth, small enough to leave while backward still computes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/dtype.h"

namespace capstan::distributed {

/// A gradient to be placed.
struct BucketItem {
  int64_t bytes;
  Dtype dtype;
};

/// How many elements a tensor takes up in a bucket or another flat tensor: as many as end on a
/// cache line, so that kernels read each tensor alike wherever it lies.
int64_t aligned(int64_t elements, Dtype dtype);

/// Item numbers, bucket by bucket.
using BucketPlan = std::vector<std::vector<int>>;

/// Fills buckets with `items` in their order. A bucket holds one dtype and closes once it has
/// reached its limit, so it may exceed it. limits[i] is for the i-th bucket of a dtype; the last
/// limit is for all further ones. Buckets are ordered by their first item. Throws ValueError
/// without a limit.
BucketPlan plan_buckets(std::span<const BucketItem> items, std::span<const int64_t> limits);

}  // namespace capstan::distributed

// Defines zero_memory(), the bytes that the states of a training take on each rank.
//
// Source: Rajbhandari, Rasley, Ruwase, He, "ZeRO: memory optimizations toward training trillion
// parameter models", SC 2020, arXiv 1910.02054, section 5 and figure 1: with p, g and o bytes of
// weights, gradients and optimizer state a parameter, on n ranks,
//
//   stage 0   p + g + o          stage 2   p + (g + o) / n
//   stage 1   p + g + o / n      stage 3   (p + g + o) / n
//
// What comes on top of it: activations, and in stages 2 and 3 the units that are whole for a while,
// see pass_memory().
#pragma once

#include <cstdint>

namespace capstan::distributed {

class Fsdp;

/// Bytes a parameter. As they stand: float32 with Adam's two moments. In half precision with Adam
/// and master weights: {2, 2, 12}.
struct StateBytes {
  double weights = 4, gradients = 4, optimizer = 8;
};

struct ZeroMemory {
  double weights = 0, gradients = 0, optimizer = 0;  // bytes on each rank
  double total() const { return weights + gradients + optimizer; }
};

/// Without padding. Throws ValueError for a stage other than 0 to 3, less than one rank, or a
/// negative number of parameters or bytes.
ZeroMemory zero_memory(int64_t parameters, int ranks, int stage, const StateBytes& bytes = {});

/// The most bytes that units take for a while in a backward pass: in stage 2 and 3 the gradients of
/// the root, of the largest unit and of the one before, which is under way; in stage 3 the weights
/// of the root, of the largest unit and of the next, which is fetched. 0 in stage 1.
int64_t pass_memory(const Fsdp& fsdp, int stage);

}  // namespace capstan::distributed

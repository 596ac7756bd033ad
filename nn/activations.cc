#include "nn/activations.h"

#include "core/raise.h"

namespace capstan::nn {

namespace {
int64_t at_least_one(int64_t channels) {
  if (channels < 1) raise<ValueError>("[prelu] channels must be at least 1, got {}", channels);
  return channels;
}
}  // namespace

PReLU::PReLU(int64_t channels, double slope) : weight(full({at_least_one(channels)}, slope)) {}

}  // namespace capstan::nn

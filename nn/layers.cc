#include "nn/layers.h"

#include "autograd/arithmetic.h"
#include "core/raise.h"

namespace capstan::nn {

namespace {
double probability(double p) {
  if (!(p >= 0 && p < 1)) raise<ValueError>("[dropout] p must be in [0, 1), got {}", p);
  return p;
}
}  // namespace

Dropout::Dropout(double p) : p(probability(p)) {}

Tensor Dropout::forward(const Tensor& x) {
  if (!training()) return x;
  AxisParts all;
  for (const auto& some : parts) all.insert(all.end(), some->begin(), some->end());
  return dropout(x, p, part_of(x.shape(), all));
}

Dropout2d::Dropout2d(double p) : p(probability(p)) {}

Tensor Dropout2d::forward(const Tensor& x) {
  if (x.rank() < 2) raise<ShapeError>("[dropout2d] takes [n, channels, ...], got {}", x.shape());
  if (!training()) return x;
  Shape channels = Dims::filled(x.rank(), 1);
  for (int axis : {0, 1}) channels[axis] = x.shape()[axis];
  return x * dropout(ones(channels, {x.dtype(), x.device()}), p);
}

}  // namespace capstan::nn

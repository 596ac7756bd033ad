// Defines the differentiable normalisations, which shift and scale groups of elements:
//
//   y = (x - mean) / sqrt(variance + epsilon) * weight + bias
//
// with the mean and the variance (divided by n, not n - 1) of the group. They differ only in what
// makes a group. Weight and bias may be null. weight_norm stands apart. All throw ShapeError,
// DtypeError (floating point, all equal), DeviceError, and ValueError for an epsilon below 0.
#pragma once

#include "core/tensor.h"

namespace capstan {

/// The last axes, of sizes `shape`, are a group (Ba, Kiros, Hinton, "Layer normalization", 2016).
/// Weight and bias have `shape`.
Tensor layer_norm(const Tensor& x, const Shape& shape, const Tensor* weight = nullptr,
                  const Tensor* bias = nullptr, double epsilon = 1e-5);
/// The same groups, but y = x / sqrt(mean(x^2) + epsilon) * weight (Zhang, Sennrich, "Root mean
/// square layer normalization", NeurIPS 2019).
Tensor rms_norm(const Tensor& x, const Shape& shape, const Tensor* weight = nullptr,
                double epsilon = 1e-6);

// Of x [n, channels, ...]; weight and bias are [channels].

/// `groups` equal parts of each sample's channels (Wu, He, "Group normalization", ECCV 2018).
Tensor group_norm(const Tensor& x, int64_t groups, const Tensor* weight = nullptr,
                  const Tensor* bias = nullptr, double epsilon = 1e-5);
/// Each channel of each sample, x [n, channels, ...] with an axis to average over (Ulyanov,
/// Vedaldi, Lempitsky, 2016).
Tensor instance_norm(const Tensor& x, const Tensor* weight = nullptr, const Tensor* bias = nullptr,
                     double epsilon = 1e-5);

/// What a batch showed of each channel, off the tape: mean [channels] and variance [channels], the
/// latter divided by n, the values that each channel had.
struct BatchStatistics {
  Tensor mean, variance;
  int64_t n = 0;
};

/// Each channel over all samples (Ioffe, Szegedy, "Batch normalization", ICML 2015). `seen`
/// receives the statistics. Throws ShapeError for less than two values a channel.
Tensor batch_norm(const Tensor& x, const Tensor* weight = nullptr, const Tensor* bias = nullptr,
                  double epsilon = 1e-5, BatchStatistics* seen = nullptr);

/// v / |v| * length, a weight whose direction and length are learned apart (Salimans, Kingma,
/// "Weight normalization", NeurIPS 2016). `length` broadcasts to v, and each of its elements is
/// that of the part of v over which it is repeated: [out, 1] of the rows of v [out, in], a scalar
/// of all of it.
Tensor weight_norm(const Tensor& v, const Tensor& length);

}  // namespace capstan

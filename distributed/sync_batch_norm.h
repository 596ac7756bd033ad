// Defines sync_batch_norm(), which makes BatchNorm layers use the statistics of all ranks' batches.
//
// A rank's own batch may be too small to tell mean and variance (Peng et al., "MegDet: a large
// mini-batch object detector", CVPR 2018, section 3.3). With this, each layer normalises by those
// of all ranks' samples together, however unevenly they are spread, and gives the outputs and
// gradients that one rank with all of them would have. It costs one all-reduce a layer in forward
// and one in backward, which nothing hides.
#pragma once

#include "autograd/normalization.h"
#include "distributed/comm/communicator.h"
#include "nn/module.h"

namespace capstan::distributed {

/// batch_norm() of autograd over the batches of all ranks, on the tape: x [n, channels, ...], where
/// n, which may be 0, and the axes after the channels may differ between ranks. Gradients are those
/// of the sum of all ranks' losses (differentiable.h). Throws as batch_norm() does; for less than
/// two values a channel over all ranks, on every rank. A collective, and its backward another.
Tensor sync_batch_norm(const Tensor& x, Communicator& communicator, const Tensor* weight = nullptr,
                       const Tensor* bias = nullptr, double epsilon = 1e-5,
                       BatchStatistics* seen = nullptr);

/// Converts all BatchNorm layers in `model` to it, and declares their buffers replicated: all ranks
/// see the same. Names and numbers stay as they are, so checkpoints fit either way. Returns how
/// many there were. Every rank must then run the model in each pass, one without samples with an
/// empty batch. Attach a Ddp afterwards; a communicator of its own (split) keeps the layers from
/// waiting for buckets. The communicator must outlive the model's use.
int sync_batch_norm(nn::Module& model, Communicator& communicator);

}  // namespace capstan::distributed

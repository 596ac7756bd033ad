// Defines the loss of connectionist temporal classification: labels of a sequence whose places in
// it are not known (Graves et al., "Connectionist temporal classification: labelling unsegmented
// sequence data with recurrent neural networks", ICML 2006).
#pragma once

#include <vector>

#include "autograd/softmax.h"

namespace capstan {

struct CtcOptions {
  int64_t blank = 0;  // the class that stands for no label
  LossReduction reduction = LossReduction::mean;
  bool zero_infinity = false;  // makes infinite losses and their gradients 0
};

/// -log of the probability that the frames of a sequence spell its labels, each label held for any
/// number of frames, with blanks anywhere between, and at least one between equal labels.
///
/// log_p [n, batch, classes] is the result of log_softmax(); sequence i has input_lengths[i]
/// frames. targets int64 [batch, longest] holds its target_lengths[i] labels, then anything.
/// LossReduction:: none gives [batch]; mean divides each loss by the number of its labels (at least
/// 1) first.
///
/// The loss is infinite where the labels, with the blanks that they need, do not fit into the
/// frames, and its gradient NaN. The gradient of the gradient is refused (GradientError). Throws
/// ShapeError, DtypeError, DeviceError, and ValueError for a length, a label or a blank out of
/// range, or a label that is the blank.
Tensor ctc_loss(const Tensor& log_p, const Tensor& targets,
                const std::vector<int64_t>& input_lengths,
                const std::vector<int64_t>& target_lengths, const CtcOptions& options = {});

}  // namespace capstan

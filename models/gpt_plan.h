// Defines the plan by which the work inside a Gpt's layers is shared out among ranks.
#pragma once

#include "distributed/tensor_parallel/plan.h"
#include "models/gpt.h"

namespace capstan::models {

struct GptPlanOptions {
  bool sequence = false;  // what lies between the layers' doors is cut along the sequence
  /// Every rank gets all logits, so that nobody needs to know of the plan; else a slice of the
  /// vocabulary each, for TensorParallel::cross_entropy("head", ...).
  bool joined_logits = false;
};

/// Attention by heads, the feed-forward part by its hidden features, the table of tokens, which is
/// also the last layer's weight, by tokens. Positions and norms stay whole.
distributed::TensorPlan gpt_plan(const GptPlanOptions& options = {});

}  // namespace capstan::models

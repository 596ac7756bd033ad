#include "models/gpt_plan.h"

namespace capstan::models {

distributed::TensorPlan gpt_plan(const GptPlanOptions& options) {
  using distributed::Cut;
  distributed::TensorPlan plan{{{"tokens", Cut::vocabulary},
                                {"blocks.*.attention", Cut::heads},
                                {"blocks.*.feed_forward", Cut::feed_forward},
                                {"head", Cut::vocabulary, options.joined_logits}}};
  if (!options.sequence) return plan;
  plan.sequence = true;
  plan.rules.push_back({"drop", Cut::sequence_start});
  for (const char* modules :
       {"blocks.*.attention_norm", "blocks.*.feed_forward_norm", "blocks.*.drop", "norm"}) {
    plan.rules.push_back({modules, Cut::sequence});
  }
  return plan;
}

}  // namespace capstan::models

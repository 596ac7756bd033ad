#include "models/rank_layout.h"

#include "core/raise.h"
#include "distributed/pipeline/schedule.h"
#include "models/option_checks.h"

namespace capstan::models {

using distributed::Mesh;

void list(RankLayout& layout, OptionReader& reader) {
  reader.group("Ranks")
      .add("--zero", layout.zero,
           "What ranks share out: 0 nothing, 1 the optimizer's state, 2 gradients too, 3 weights "
           "too")
      .add("--pipeline", layout.pipeline, "Stages that the layers are dealt out to")
      .add("--schedule", layout.schedule, "Of the pipeline: gpipe, 1f1b, interleaved or zb-h1")
      .add("--chunks", layout.chunks, "Parts of each stage, with --schedule interleaved")
      .add("--expert-parallel", layout.spread_experts,
           "Each part of the data has a part of the experts")
      .add("--context-parallel", layout.context, "Ranks that have a part of each sequence")
      .add("--tensor", layout.tensor, "Ranks that compute each layer together")
      .add("--sequence-parallel", layout.sequence_parallel,
           "They have parts of the sequence between layers");
}

void check(const RankLayout& layout) {
  require(layout.zero >= 0 && layout.zero <= 3, "--zero", "0, 1, 2 or 3", layout.zero);
  require_count("--pipeline", layout.pipeline, 10'000);
  require_count("--chunks", layout.chunks, 10'000);
  if (layout.spread_experts && layout.zero > 0) {
    raise<ValueError>(
        "[options] --expert-parallel does not go with --zero {}: ranks have other experts, not "
        "shards of the same",
        layout.zero);
  }
  require_count("--context-parallel", layout.context, 10'000);
  require_count("--tensor", layout.tensor, 10'000);
  if (layout.sequence_parallel && layout.tensor == 1) {
    raise<ValueError>("[options] --sequence-parallel is of the ranks of --tensor: of 2 or more");
  }
  if (layout.sequence_parallel && layout.context > 1) {
    raise<ValueError>(
        "[options] --sequence-parallel does not go with --context-parallel: both cut sequences");
  }
  require_choice("--schedule", layout.schedule, {"gpipe", "1f1b", "interleaved", "zb-h1"});
}

int64_t RankLayout::sequence_parts() const {
  if (context > 1) return 2 * context;  // zigzag
  return sequence_parallel ? tensor : 1;
}

Mesh RankLayout::mesh(int ranks) const {
  const int64_t sample = pipeline * context * tensor;
  if (ranks % sample != 0) {
    raise<ValueError>(
        "[options] --pipeline {} x --context-parallel {} x --tensor {} are {} ranks for a sample, "
        "which must divide the ranks; there are {}",
        pipeline, context, tensor, sample, ranks);
  }
  return Mesh({{"pipeline", static_cast<int>(pipeline)},
               {"data", static_cast<int>(ranks / sample)},
               {"context", static_cast<int>(context)},
               {"tensor", static_cast<int>(tensor)}});
}

std::string to_string(const RankLayout& layout, int ranks) {
  const bool plain = layout.pipeline * layout.context * layout.tensor == 1 && layout.zero == 0;
  if (plain && !layout.spread_experts) return "";
  static constexpr const char* kShared[] = {
      "", " sharing the optimizer's state", " sharing gradients and the optimizer's state",
      " sharing weights, gradients and the optimizer's state"};
  const int parts = layout.mesh(ranks).size("data");
  std::string text = fmt::format("{} {} of the data{}", parts, parts == 1 ? "part" : "parts",
                                 kShared[layout.zero]);
  if (layout.spread_experts) text += ", each with its part of the experts";
  if (layout.pipeline > 1) {
    text = fmt::format("{} stages ({}) x ", layout.pipeline, layout.schedule) + text;
  }
  if (layout.context > 1) text += fmt::format(" x {} parts of each sequence", layout.context);
  if (layout.tensor > 1) text += fmt::format(" x {} ranks a layer", layout.tensor);
  if (layout.sequence_parallel) text += ", with parts of the sequence between layers";
  return text + '\n';
}

}  // namespace capstan::models

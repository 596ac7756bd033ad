// Defines RankLayout: along which axes the ranks of a run share its work.
//
//   pipeline x data x context x tensor = ranks     distributed/mesh/mesh.h shows who is where
//
// The ranks of a "tensor" group compute each layer together, those of a "pipeline" have some of the
// layers each, and what these make together, one copy of the model, is there once for each part of
// the data: for some of the samples ("data") and, of each, for some of the places ("context"). With
// `zero`, the ranks of these two axes share out what they would have alike.
#pragma once

#include "distributed/mesh/mesh.h"
#include "models/option_reader.h"

namespace capstan::models {

struct RankLayout {
  int64_t zero = 0;                // a stage of distributed/fsdp/fsdp.h; 0: Ddp
  int64_t pipeline = 1;            // stages
  std::string schedule = "1f1b";   // or another of distributed/pipeline/schedule.h
  int64_t chunks = 2;              // of the layers in each stage, where the schedule is interleaved
  bool spread_experts = false;     // over the ranks of the data
  int64_t context = 1;             // ranks that have parts of each sequence
  int64_t tensor = 1;              // ranks that share each layer
  bool sequence_parallel = false;  // they share out what lies between layers, too

  /// How the schedule deals out the layers.
  int chunks_of_stage() const { return schedule == "interleaved" ? static_cast<int>(chunks) : 1; }
  /// A sequence's length must be a multiple of this.
  int64_t sequence_parts() const;
  /// Throws ValueError unless pipeline * context * tensor divides `ranks`.
  distributed::Mesh mesh(int ranks) const;
};

/// As for TrainOptions.
void check(const RankLayout& layout);
void list(RankLayout& layout, OptionReader& reader);

/// A line: "2 stages (1f1b) x 2 parts of the data sharing the optimizer's state x 2 ranks a layer";
/// empty where every rank has everything.
std::string to_string(const RankLayout& layout, int ranks);

}  // namespace capstan::models

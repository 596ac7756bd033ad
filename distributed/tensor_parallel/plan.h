// Defines TensorPlan, which says how the modules of a model are cut over ranks.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/shape.h"

namespace capstan::distributed {

/// How one module is cut. With Y = X A^T for a Linear, whose weight A is [out, in]:
enum class Cut {
  /// A Linear whose Y is cut: weight and bias by rows of A (columns to papers, which write X A).
  column,
  /// A Linear whose X is cut, as column leaves it: the weight along `in`. The bias comes after the
  /// sum, once.
  row,
  /// A module whose layers are Linear: the last is cut as row, those before as column, and what
  /// goes
  /// into the module enters once. Two-layer perceptrons, SwiGLU.
  feed_forward,
  /// MultiheadAttention: query, key and value by heads, as column; out as row.
  heads,
  /// An Embedding by rows: each rank looks up what it has, and the sum leaves. Or a Linear as
  /// column, whose logits are cut. Any number of rows that is not below the ranks'.
  vocabulary,
  /// This module works on this rank's part of the sequence, axis 1, ...
  sequence,
  /// ... which is cut before it: what goes in is whole.
  sequence_start,
};

struct TensorRule {
  std::string modules;  // a name, or a pattern as in NamePatterns
  Cut cut;
  bool joined = false;  // every rank gets all results of a column, or of a Linear by vocabulary
};

/// The same on all ranks.
struct TensorPlan {
  std::vector<TensorRule> rules;
  bool sequence = false;  // activations between regions are cut along the sequence
};

std::string to_string(Cut cut);

}  // namespace capstan::distributed

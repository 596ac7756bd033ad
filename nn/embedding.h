// Defines Embedding, a table of vectors looked up by number.
#pragma once

#include "nn/module.h"

namespace capstan::nn {

struct EmbeddingOptions {
  std::optional<int64_t> padding = {};  // this row starts as 0 and gets no gradient
};

/// Indices (int64 [...], in [0, count)) to rows of the table: [..., size]. weight [count, size],
/// standard normal at first. Throws ValueError for a padding outside [0, count).
struct Embedding : Module {
  Embedding(int64_t count, int64_t size, EmbeddingOptions options = {});

  /// A table whose rows are shared out: weight holds those from `first` on of `count`. Other
  /// indices give zeros, so that the results of all parts add up to the whole table's.
  struct Part {
    int64_t first, count;
  };

  Parameter weight;
  std::optional<int64_t> padding;
  std::optional<Part> part = {};
  CAPSTAN_MODULE(Embedding, weight)

  Tensor forward(const Tensor& indices);
};

}  // namespace capstan::nn

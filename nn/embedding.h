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

  Parameter weight;
  std::optional<int64_t> padding;
  CAPSTAN_MODULE(Embedding, weight)

  Tensor forward(const Tensor& indices);
};

}  // namespace capstan::nn

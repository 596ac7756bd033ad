#include "nn/embedding.h"

#include "autograd/arithmetic.h"
#include "autograd/indexing.h"
#include "autograd/views.h"
#include "core/raise.h"
#include "core/random.h"

namespace capstan::nn {

Embedding::Embedding(int64_t count, int64_t size, EmbeddingOptions options)
    : weight(randn({count, size})), padding(options.padding) {
  if (!padding) return;
  if (*padding < 0 || *padding >= count) {
    raise<ValueError>("[embedding] padding must be in [0, {}), got {}", count, *padding);
  }
  fill_elements(detach(select(weight, 0, *padding)), 0);
}

Tensor Embedding::forward(const Tensor& indices) {
  const Tensor rows = take_rows(weight, indices);
  if (!padding) return rows;
  const Tensor padded = unsqueeze(equal(indices, scalar_beside(indices, double(*padding))), -1);
  return where(padded, detach(rows), rows);
}

}  // namespace capstan::nn

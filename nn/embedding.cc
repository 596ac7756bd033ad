#include "nn/embedding.h"

#include "autograd/arithmetic.h"
#include "autograd/indexing.h"
#include "autograd/reduce.h"
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

namespace {

/// Rows of a part of a table; zeros where another part has them.
Tensor rows_of_part(const Tensor& weight, const Tensor& indices, const Embedding::Part& part) {
  if (indices.dtype() != Dtype::int64) {
    raise<DtypeError>("[embedding] indices must be int64, got {}", indices.dtype());
  }
  const Tensor place = indices - static_cast<double>(part.first);
  const Tensor here =
      logical_and(greater_equal(place, 0), less(place, static_cast<double>(weight.size(0))));
  const Tensor outside =
      logical_or(less(indices, 0), greater_equal(indices, static_cast<double>(part.count)));
  if (indices.device().kind != Device::Kind::meta && any(outside).item<bool>()) {
    raise<ValueError>("[embedding] indices must be in [0, {}), got {}", part.count,
                      masked_select(indices, outside).to_vector<int64_t>()[0]);
  }
  const Tensor rows = take_rows(weight, where(here, place, scalar_beside(place, 0)));
  return where(unsqueeze(here, -1), rows, scalar_beside(rows, 0));
}

}  // namespace

Tensor Embedding::forward(const Tensor& indices) {
  const Tensor rows = part ? rows_of_part(weight, indices, *part) : take_rows(weight, indices);
  if (!padding) return rows;
  const Tensor padded = unsqueeze(equal(indices, scalar_beside(indices, double(*padding))), -1);
  return where(padded, detach(rows), rows);
}

}  // namespace capstan::nn

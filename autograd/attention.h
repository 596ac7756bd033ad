// Defines differentiable attention (Vaswani et al., "Attention is all you need", NeurIPS 2017) in
// the form that never stores the matrix of scores, and rotary positions.
#pragma once

#include <optional>

#include "core/part.h"
#include "core/random.h"

namespace capstan {

struct AttentionOptions {
  /// Broadcasts to [batch, heads, m, n]. bool: a query sees the keys where it is true; of the
  /// queries' dtype: added to the scores. Constant: it gets no gradient.
  Tensor mask = {};
  /// Query i sees the keys 0 to i + n - m: the m queries are the last of n positions.
  bool causal = false;
  std::optional<double> scale = {};  // 1 / sqrt(d) unless given
  /// Probability with which a weight is 0; the others are divided by 1 - dropout.
  double dropout = 0;
  /// Which part of all weights [batch, heads, m, n] these are, where ranks share them: of no axis
  /// more than one block. Dropout then drops what it would of the whole.
  AxisParts parts = {};
};

/// softmax(scale q k^T + mask) v for q [batch, heads, m, d], k [batch, groups, n, d] and v [batch,
/// groups, n, e]: [batch, heads, m, e]. With less groups than heads, heads / groups neighbouring
/// heads share keys and values (Ainslie et al., "GQA", EMNLP 2023). A query that sees no key gets
/// 0. Memory grows with m + n, not with m n; a gradient of the gradient does need the scores.
/// Dropout drops what dropout() of all weights [batch, heads, m, n] would; backward draws it again.
/// Throws ShapeError, DtypeError (floating point, all equal), DeviceError, GradientError for a
/// mask that wants a gradient, and ValueError unless 0 <= dropout < 1.
Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const AttentionOptions& options = {},
                                    Generator& generator = default_generator());

struct RotaryOptions {
  int64_t offset = 0;        // position of the first row
  double base = 10000;       // pair j of d / 2 turns by position / base^(2 j / d)
  bool interleaved = false;  // a pair is (2 j, 2 j + 1), else (j, j + d / 2)
};

/// Turns pairs of features of x [..., n, d] by angles that grow with their position along n, so
/// that products of queries and keys depend on distances only (Su et al., "RoFormer", 2021). Throws
/// ShapeError for an odd d, ValueError for a base that is not above 0, DtypeError.
Tensor rotary_embedding(const Tensor& x, const RotaryOptions& options = {});

}  // namespace capstan

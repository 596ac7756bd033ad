// Defines jacobian() and hessian(): all first, and all second derivatives of a function.
#pragma once

#include <functional>

#include "core/tensor.h"

namespace capstan {

using TensorFunction = std::function<Tensor(const Tensor&)>;

struct JacobianOptions {
  bool create_graph = false;  // the result can be differentiated by x, and by what else f reads
};

/// The derivatives of f(x) [out...] by x [in...], both floating: [out..., in...]. One walk over the
/// tape for each element of f(x). Elements of x that f does not read have derivative 0. Nothing is
/// accumulated. Throws DtypeError unless x is floating, and what f and grad() throw.
Tensor jacobian(const TensorFunction& f, const Tensor& x, const JacobianOptions& options = {});

/// The second derivatives of f(x), of one element, by x [in...]: [in..., in...]. Throws ShapeError
/// if f(x) has more elements.
Tensor hessian(const TensorFunction& f, const Tensor& x, const JacobianOptions& options = {});

}  // namespace capstan

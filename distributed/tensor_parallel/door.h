// Defines the doors of a parallel region: what an activation passes where the work of several ranks
// begins and where it ends (Shoeybi et al., "Megatron-LM", 2019, section 3; Korthikanti et al.,
// "Reducing activation recomputation in large transformer models", 2022, section 4.2).
//
// Tensor parallelism shares one product out among ranks. Two products in a row need one sum:
//
//   Y = f(X A) B      rank r has the columns A_r and the rows B_r:  Y = sum over r of f(X A_r) B_r
//
// f works on each element, or on each head of attention, so every rank finds its part of f(X A)
// alone. X enters, equal on all ranks; backward, each rank knows only what its own part of A says
// of X's gradient, and the sum of these is the gradient. Y leaves as a sum; backward, its gradient
// is equal on all ranks, as Y is. So the two doors, f and g in the paper, are each other's
// gradient:
//
//               forward                          backward
//   enter       x                                the sum over ranks
//   leave       the sum over ranks               the gradient
//
// Between regions all ranks do the same work (norms, residual sums, dropout). Sequence parallelism
// shares that out too: each rank has a part of the sequence there. The doors move as many bytes as
// before, for an all-reduce is a reduce-scatter and an all-gather:
//
//   gather      all parts, one after another     this rank's part of the sum
//   scatter     this rank's part of the sum      all parts, one after another
//
// And where a tensor is merely cut, or whole again, with nothing to add up:
//
//   part        this rank's part                 all parts, one after another
//   join        all parts, one after another     this rank's part
//
// Here, unlike in distributed/differentiable.h, a loss is not added up over ranks: all ranks
// compute the same one, from the same tensors, and each tensor outside of regions has the same
// gradient on all of them.
//
// These wait until they are done. On Device::meta() they give shapes and send nothing. The
// communicator must outlive the tape.
#pragma once

#include <string>

#include "core/tensor.h"
#include "distributed/comm/communicator.h"

namespace capstan::distributed {

/// The indices of an axis that a rank has: `count` from `first` on.
struct Slice {
  int64_t first, count;
};
/// `size` indices cut into parts as equal as can be.
Slice slice_of(int64_t size, int rank, int ranks);

namespace door {

/// x as it is; backward, the sum of the ranks' gradients.
Tensor enter(const Tensor& x, Communicator& ranks, const std::string& tag = {});
/// The sum of the ranks' x; backward, the gradient as it is.
Tensor leave(const Tensor& x, Communicator& ranks, const std::string& tag = {});

/// The ranks' x, of equal sizes, one after another along an axis; backward, this rank's part of the
/// sum of the gradients.
Tensor gather(const Tensor& x, int64_t axis, Communicator& ranks, const std::string& tag = {});
/// This rank's part, along an axis, of the sum of the ranks' x; backward, all parts of the
/// gradient. Throws ShapeError unless the ranks divide the axis.
Tensor scatter(const Tensor& x, int64_t axis, Communicator& ranks, const std::string& tag = {});

/// This rank's share of an axis of x, which is equal on all ranks; backward, all parts of the
/// gradient.
Tensor part(const Tensor& x, int64_t axis, Communicator& ranks, const std::string& tag = {});
/// The ranks' shares of an axis of `size` indices, one after another; backward, this rank's part of
/// the gradient. Throws ShapeError unless x has this rank's share.
Tensor join(const Tensor& x, int64_t axis, int64_t size, Communicator& ranks,
            const std::string& tag = {});

}  // namespace door
}  // namespace capstan::distributed

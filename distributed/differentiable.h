// Defines collectives that are recorded on the tape.
//
// The convention. Every rank has a loss of its own, and what is differentiated is the sum of all of
// them, L = L_0 + ... + L_{n-1}. A collective y = f(x_0, ..., x_{n-1}) gives each rank some y_r;
// the gradient that rank s gets is dL/dx_s, the sum over all ranks r that used x_s. So the gradient
// of each is the collective that moves numbers the other way:
//
//   forward                        backward
//   all_reduce      y_r = sum x    dL/dx_s = sum of dL/dy    all_reduce
//   reduce          y_root = sum x           dL/dy_root      broadcast
//   broadcast       y_r = x_root   dL/dx_root = sum of dL/dy reduce (0 elsewhere)
//   all_gather      y_r = all x    dL/dx_s = sum of parts s  reduce_scatter
//   reduce_scatter  y_r = part r   dL/dx_s = all dL/dy       all_gather
//   gather          y_root = all x dL/dx_s = part s of root  scatter
//   scatter         y_r = part r of x_root                   gather (0 elsewhere)
//   all_to_all      y_r[s] = x_s[r]                          all_to_all
//   send            (a receipt)    dL/dx = dL/dy there       recv
//   recv            y = x there    none                      send
//
// Where all ranks compute the same loss from the same y, L counts it n times; divide it by n, or
// use one rank's.
//
// Gradients are such collectives themselves, and so can be differentiated in turn; but for those of
// send and recv, of which one rank alone could not tell.
//
// These wait until they are done. Backward makes its calls when the tape gets there, so all ranks
// must have recorded the same collectives in the same order, and all must run backward. The
// communicator must outlive the tape.
#pragma once

#include <string>

#include "core/tensor.h"
#include "distributed/comm/communicator.h"

namespace capstan::distributed::differentiable {

/// The sum over all ranks, on every rank. x: the same shape on all ranks.
Tensor all_reduce(const Tensor& x, Communicator& communicator, const std::string& tag = {});
/// The sum over all ranks on the root, zeros elsewhere.
Tensor reduce(const Tensor& x, int root, Communicator& communicator, const std::string& tag = {});
/// The root's x on every rank; the others' only lend their shape.
Tensor broadcast(const Tensor& x, int root, Communicator& communicator,
                 const std::string& tag = {});
/// x [k, ...] of all ranks, one after the other: [n * k, ...].
Tensor all_gather(const Tensor& x, Communicator& communicator, const std::string& tag = {});
/// The same for parts of any sizes: rank r's x is [rows[r], ...], the same `rows` on all ranks.
Tensor all_gather(const Tensor& x, const Counts& rows, Communicator& communicator,
                  const std::string& tag = {});
/// Part rank() of the sum of x [n * k, ...]: [k, ...]. Throws ShapeError unless n divides axis 0.
Tensor reduce_scatter(const Tensor& x, Communicator& communicator, const std::string& tag = {});
/// The same for parts of any sizes: rank r gets [rows[r], ...] of x [sum of rows, ...].
Tensor reduce_scatter(const Tensor& x, const Counts& rows, Communicator& communicator,
                      const std::string& tag = {});
/// x [k, ...] of all ranks, one after the other, on the root: [n * k, ...]. Elsewhere the result
/// has no rows, and must come into the rank's loss all the same (its sum is 0): so backward gets to
/// it.
Tensor gather(const Tensor& x, int root, Communicator& communicator, const std::string& tag = {});
/// Part rank() of the root's x [n * k, ...]: [k, ...]; the others' only lend their shape. Throws as
/// reduce_scatter does.
Tensor scatter(const Tensor& x, int root, Communicator& communicator, const std::string& tag = {});
/// Part s of the result is part rank() of rank s's x [n * k, ...]. Throws as reduce_scatter does.
Tensor all_to_all(const Tensor& x, Communicator& communicator, const std::string& tag = {});
/// The same for parts of any sizes: rows_out[r] rows of x go to rank r, rows_in[r] come from it.
Tensor all_to_all(const Tensor& x, const Counts& rows_out, const Counts& rows_in,
                  Communicator& communicator, const std::string& tag = {});
/// Sends x to another rank, which calls recv. Returns a receipt, the number 0: add it to the loss,
/// or backward will not get here to receive the gradient.
Tensor send(const Tensor& x, int to, Communicator& communicator, const std::string& tag = {});
/// What another rank sends, of that shape and dtype (a floating one).
Tensor recv(const Shape& shape, Dtype dtype, int from, Communicator& communicator,
            const std::string& tag = {});

}  // namespace capstan::distributed::differentiable

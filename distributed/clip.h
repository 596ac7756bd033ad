// Defines clipping by the gradients' norm, and the check for overflow, where a model's parameters
// are spread over ranks: in shards, slices or stages.
//
// What a rank sees of the norm is the part of its own parameters. So squares are added up over the
// ranks that hold the model together, and each element must count once: of what several of them
// hold alike, one rank counts it. Whatever the layout, all ranks find the norm that one rank with
// the whole model would, and scale all that they hold by it.
//
//   pipeline x data x tensor, Ddp    ranks: a plane of pipeline and tensor,
//                                    Mesh::split(world, {"pipeline", "tensor"})
//   the same with shards over data   ranks: all
//   counted                          slices, shards and the parameters of a stage by every rank;
//                                    what tensor ranks have alike by one of them
//                                    (TensorParallel::counted), a tied table by one of its stages
#pragma once

#include "core/exact_sum.h"
#include "core/tensor.h"
#include "distributed/comm/communicator.h"
#include "optim/grad_scaler.h"

namespace capstan::distributed {

/// The sum of all ranks' sums, on every rank. A collective.
ExactSum sum_over(const ExactSum& mine, Communicator& ranks);

/// The 2-norm of the gradients of all ranks' `counted` parameters: of an exact sum, and so the same
/// to the last bit on all ranks and however the elements are spread over them. A collective.
double grad_norm(const NamedTensors& counted, Communicator& ranks);

/// optim::clip_grad_norm() by that norm: scales the gradients of `parameters`, all that this rank
/// holds. A collective. Throws ValueError unless limit > 0, or if the norm is beyond float64, and
/// SharedError, with a rank and its parameter, for a gradient that is not finite.
double clip_grad_norm(const NamedTensors& parameters, const NamedTensors& counted, double limit,
                      Communicator& ranks);
/// The same where the root of `squares`, equal on all ranks, is the norm.
double clip_grad_norm(const NamedTensors& parameters, const ExactSum& squares, double limit,
                      Communicator& ranks);

/// scaler.unscale(parameters), but false on every rank, with nothing changed on any, if one of them
/// has a gradient that is not finite. A collective.
bool unscale(const optim::GradScaler& scaler, const NamedTensors& parameters, Communicator& ranks);

}  // namespace capstan::distributed

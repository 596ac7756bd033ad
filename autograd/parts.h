// Defines how a view takes its place on the tape: view_on_tape(), and part_of() with its reverse,
// for views whose elements are a part of the others'. For the .cc files of this folder.
//
// The tape must know the views of a tensor, because a recorded write to one (in_place.h) changes
// all of them. A view made by view_on_tape() knows its base; when the base's elements have been
// written to, Tensor::node() gives it a new place: the part of the base, as it is now, that it
// shows.
#pragma once

#include "autograd/record.h"

namespace capstan {

/// view_of(x, layout), as a view that the tape follows; inside no_grad(), or where `x` is not
/// followed itself, it is not.
inline Tensor view_on_tape(const Tensor& x, const Layout& layout) {
  Tensor view = view_of(x, layout);
  const TensorBody& body = x.body();
  if (grad_enabled() && (x.requires_grad() || body.seen_writes != TensorBody::kApart)) {
    view.body().base = body.base ? body.base : Ref<TensorBody>(&x.body());
    view.body().seen_writes = x.storage().recorded_writes();
  }
  return view;
}

template <class Part>
Tensor part_of(const char* operation, const Tensor& x, const Part& part);

/// The reverse of part_of(): zeros of `shape`, but for the part.
template <class Part>
Tensor whole_of(const char* operation, const Tensor& x, const Shape& shape, const Part& part) {
  const Tensor whole = zeros(shape, {x.dtype(), x.device()});
  copy_elements(x, view_of(whole, part(whole.layout())));
  return record(operation, whole, inputs(x), [operation, part](const Tensor& grad) {
    return gradients(part_of(operation, grad, part));
  });
}

/// The view whose layout `part` makes of any layout of x's shape; no element of it comes twice.
template <class Part>
Tensor part_of(const char* operation, const Tensor& x, const Part& part) {
  return record(operation, view_on_tape(x, part(x.layout())), inputs(x),
                [operation, shape = x.shape(), part](const Tensor& grad) {
                  return gradients(whole_of(operation, grad, shape, part));
                });
}

/// The view `layout` of dense `base`, as a part of it, whatever operations led to it.
Tensor part_at(const Tensor& base, const Layout& layout);

}  // namespace capstan

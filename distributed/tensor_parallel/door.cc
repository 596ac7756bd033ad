// Implements the doors: first what they do to elements, then each with the other as its gradient.
#include "distributed/tensor_parallel/door.h"

#include "autograd/record.h"
#include "core/raise.h"

namespace capstan::distributed {

Slice slice_of(int64_t size, int rank, int ranks) {
  const int64_t first = size * rank / ranks;
  return {first, size * (rank + 1) / ranks - first};
}

namespace door {
namespace {

bool has_elements(const Tensor& x) { return x.device().kind != Device::Kind::meta; }

/// Dense, with axis 0 and `axis` exchanged: collectives cut along axis 0.
Tensor turned(const Tensor& x, int axis) {
  const Tensor view = view_of(x, x.layout().transposed(0, axis));
  return view.is_contiguous() ? view : dense_copy(view);
}

/// How many elements each rank has of a dense tensor whose axis 0 is shared out.
Counts counts(const Shape& shape, int ranks) {
  Shape row = shape;
  row[0] = 1;
  Counts counts;
  for (int r = 0; r < ranks; ++r) {
    counts.push_back(slice_of(shape[0], r, ranks).count * numel(row));
  }
  return counts;
}

Tensor with_axis(const Tensor& like, int axis, int64_t size) {
  Shape shape = like.shape();
  shape[axis] = size;
  return empty(shape, {like.dtype(), like.device()});
}

Tensor summed(const Tensor& x, Communicator& ranks, const std::string& tag) {
  const Tensor sum = dense_copy(x);
  if (has_elements(x)) ranks.all_reduce(sum, Reduce::sum, tag).wait();
  return sum;
}

Tensor own(const Tensor& x, int axis, Communicator& ranks) {
  const Slice slice = slice_of(x.size(axis), ranks.rank(), ranks.size());
  return dense_copy(view_of(x, x.layout().sliced(axis, slice.first, slice.first + slice.count)));
}

Tensor joined(const Tensor& x, int axis, int64_t size, Communicator& ranks,
              const std::string& tag) {
  if (!has_elements(x)) return with_axis(x, axis, size);
  const Tensor mine = turned(x, axis), all = with_axis(mine, 0, size);
  ranks.all_gather(mine, all, counts(all.shape(), ranks.size()), tag).wait();
  return turned(all, axis);
}

Tensor own_of_sum(const Tensor& x, int axis, Communicator& ranks, const std::string& tag) {
  const int64_t mine_size = slice_of(x.size(axis), ranks.rank(), ranks.size()).count;
  if (!has_elements(x)) return with_axis(x, axis, mine_size);
  const Tensor all = turned(x, axis), mine = with_axis(all, 0, mine_size);
  ranks.reduce_scatter(all, mine, counts(all.shape(), ranks.size()), Reduce::sum, tag).wait();
  return turned(mine, axis);
}

}  // namespace

Tensor enter(const Tensor& x, Communicator& ranks, const std::string& tag) {
  return record("enter", detach(x), inputs(x),
                [&ranks, tag](const Tensor& grad) { return gradients(leave(grad, ranks, tag)); });
}

Tensor leave(const Tensor& x, Communicator& ranks, const std::string& tag) {
  return record("leave", summed(x, ranks, tag), inputs(x),
                [&ranks, tag](const Tensor& grad) { return gradients(enter(grad, ranks, tag)); });
}

Tensor gather(const Tensor& x, int64_t axis, Communicator& ranks, const std::string& tag) {
  const int a = normalize_axis("gather", axis, x.rank());
  return record(
      "gather", joined(x, a, x.size(a) * ranks.size(), ranks, tag), inputs(x),
      [&ranks, a, tag](const Tensor& grad) { return gradients(scatter(grad, a, ranks, tag)); });
}

Tensor scatter(const Tensor& x, int64_t axis, Communicator& ranks, const std::string& tag) {
  const int a = normalize_axis("scatter", axis, x.rank());
  if (x.size(a) % ranks.size() != 0) {
    raise<ShapeError>("[scatter] axis {} must be a multiple of the {} ranks, got {}", a,
                      ranks.size(), x.shape());
  }
  return record(
      "scatter", own_of_sum(x, a, ranks, tag), inputs(x),
      [&ranks, a, tag](const Tensor& grad) { return gradients(gather(grad, a, ranks, tag)); });
}

Tensor part(const Tensor& x, int64_t axis, Communicator& ranks, const std::string& tag) {
  const int a = normalize_axis("part", axis, x.rank());
  return record("part", own(x, a, ranks), inputs(x),
                [&ranks, a, size = x.size(a), tag](const Tensor& grad) {
                  return gradients(join(grad, a, size, ranks, tag));
                });
}

Tensor join(const Tensor& x, int64_t axis, int64_t size, Communicator& ranks,
            const std::string& tag) {
  const int a = normalize_axis("join", axis, x.rank());
  const int64_t wanted = slice_of(size, ranks.rank(), ranks.size()).count;
  if (x.size(a) != wanted) {
    raise<ShapeError>("[join] axis {} must be this rank's {} of {} indices, got {}", a, wanted,
                      size, x.shape());
  }
  return record(
      "join", joined(x, a, size, ranks, tag), inputs(x),
      [&ranks, a, tag](const Tensor& grad) { return gradients(part(grad, a, ranks, tag)); });
}

}  // namespace door
}  // namespace capstan::distributed

// Implements the collectives on the tape: each one, and beside it the one that is its gradient.
#include "distributed/differentiable.h"

#include <numeric>

#include "autograd/record.h"
#include "core/raise.h"

namespace capstan::distributed::differentiable {
namespace {

// Uninitialised, like x but for the length of axis 0.
Tensor with_rows(const Tensor& x, int64_t rows) {
  Shape shape = x.shape();
  shape[0] = rows;
  return empty(shape, {x.dtype(), x.device()});
}

void check_axis(const char* operation, const Tensor& x) {
  if (x.shape().rank() == 0) {
    raise<ShapeError>("[{}] a scalar has no axis to cut or join along", operation);
  }
}

// The rows of each rank's part of x.
Counts equal_parts(const char* operation, const Tensor& x, int ranks) {
  check_axis(operation, x);
  if (x.size(0) % ranks != 0) {
    raise<ShapeError>("[{}] axis 0 must be a multiple of the {} ranks, got {}", operation, ranks,
                      x.shape());
  }
  return Counts(ranks, x.size(0) / ranks);
}

// The other collectives look at them before a result is made.
void check_counts(const char* operation, const Counts& rows, int ranks) {
  if (std::ssize(rows) == ranks) return;
  raise<ShapeError>("[{}] there must be a count of rows for each of the {} ranks, got {}",
                    operation, ranks, rows.size());
}

int64_t sum_of(const Counts& counts) {
  return std::accumulate(counts.begin(), counts.end(), int64_t{0});
}

// Rows of x as elements, which communicators count in.
Counts elements(Counts rows, const Tensor& x) {
  int64_t of_row = 1;
  for (int64_t axis = 1; axis < x.shape().rank(); ++axis) of_row *= x.size(axis);
  for (int64_t& count : rows) count *= of_row;
  return rows;
}

// Puts a collective on the tape whose gradient is `back` of the result's.
template <class F>
Tensor with_gradient(const char* operation, const Tensor& y, const Tensor& x, const F& back) {
  return record(operation, y, inputs(x),
                [back](const Tensor& grad) { return gradients(back(grad)); });
}

Tensor received(const Shape& shape, Dtype dtype, int from, Communicator& communicator,
                const std::string& tag) {
  const Tensor y = empty(shape, {.dtype = dtype});
  communicator.recv(y, from, tag).wait();
  return y;
}

// scatter() where every rank knows the rows of its part.
Tensor scatter_rows(const Tensor& x, int root, int64_t rows, Communicator& communicator,
                    const std::string& tag);

// gather() whose result has `rows` of zeros elsewhere than on the root.
Tensor gather_rows(const Tensor& x, int root, int64_t rows, Communicator& communicator,
                   const std::string& tag) {
  const bool here = communicator.rank() == root;
  const Tensor y = with_rows(x, here ? communicator.size() * x.size(0) : rows);
  if (!here) fill_elements(y, 0);
  communicator.gather(dense_copy(x), y, root, tag).wait();
  return with_gradient(
      "gather", y, x,
      [&communicator, root, rows = x.size(0), tag = "gradient of " + tag](const Tensor& grad) {
        return scatter_rows(grad, root, rows, communicator, tag);
      });
}

Tensor scatter_rows(const Tensor& x, int root, int64_t rows, Communicator& communicator,
                    const std::string& tag) {
  const Tensor y = with_rows(x, rows);
  communicator.scatter(dense_copy(x), y, root, tag).wait();
  return with_gradient(
      "scatter", y, x,
      [&communicator, root, all = x.size(0), tag = "gradient of " + tag](const Tensor& grad) {
        return gather_rows(grad, root, all, communicator, tag);
      });
}

}  // namespace

Tensor all_reduce(const Tensor& x, Communicator& communicator, const std::string& tag) {
  const Tensor y = dense_copy(x);
  communicator.all_reduce(y, Reduce::sum, tag).wait();
  return with_gradient("all_reduce", y, x,
                       [&communicator, tag = "gradient of " + tag](const Tensor& grad) {
                         return all_reduce(grad, communicator, tag);
                       });
}

Tensor reduce(const Tensor& x, int root, Communicator& communicator, const std::string& tag) {
  const Tensor y = dense_copy(x);
  communicator.reduce(y, root, Reduce::sum, tag).wait();
  if (communicator.rank() != root) fill_elements(y, 0);
  return with_gradient("reduce", y, x,
                       [&communicator, root, tag = "gradient of " + tag](const Tensor& grad) {
                         return broadcast(grad, root, communicator, tag);
                       });
}

Tensor broadcast(const Tensor& x, int root, Communicator& communicator, const std::string& tag) {
  const Tensor y = dense_copy(x);
  communicator.broadcast(y, root, tag).wait();
  return with_gradient("broadcast", y, x,
                       [&communicator, root, tag = "gradient of " + tag](const Tensor& grad) {
                         return reduce(grad, root, communicator, tag);
                       });
}

Tensor all_gather(const Tensor& x, Communicator& communicator, const std::string& tag) {
  check_axis("all_gather", x);
  return all_gather(x, Counts(communicator.size(), x.size(0)), communicator, tag);
}

Tensor all_gather(const Tensor& x, const Counts& rows, Communicator& communicator,
                  const std::string& tag) {
  check_axis("all_gather", x);
  const Tensor y = with_rows(x, sum_of(rows));
  communicator.all_gather(dense_copy(x), y, elements(rows, x), tag).wait();
  return with_gradient("all_gather", y, x,
                       [&communicator, rows, tag = "gradient of " + tag](const Tensor& grad) {
                         return reduce_scatter(grad, rows, communicator, tag);
                       });
}

Tensor reduce_scatter(const Tensor& x, Communicator& communicator, const std::string& tag) {
  return reduce_scatter(x, equal_parts("reduce_scatter", x, communicator.size()), communicator,
                        tag);
}

Tensor reduce_scatter(const Tensor& x, const Counts& rows, Communicator& communicator,
                      const std::string& tag) {
  check_axis("reduce_scatter", x);
  check_counts("reduce_scatter", rows, communicator.size());
  const Tensor y = with_rows(x, rows[communicator.rank()]);
  communicator.reduce_scatter(dense_copy(x), y, elements(rows, x), Reduce::sum, tag).wait();
  return with_gradient("reduce_scatter", y, x,
                       [&communicator, rows, tag = "gradient of " + tag](const Tensor& grad) {
                         return all_gather(grad, rows, communicator, tag);
                       });
}

Tensor gather(const Tensor& x, int root, Communicator& communicator, const std::string& tag) {
  check_axis("gather", x);
  return gather_rows(x, root, 0, communicator, tag);
}

Tensor scatter(const Tensor& x, int root, Communicator& communicator, const std::string& tag) {
  const int64_t rows = equal_parts("scatter", x, communicator.size())[0];
  return scatter_rows(x, root, rows, communicator, tag);
}

Tensor all_to_all(const Tensor& x, Communicator& communicator, const std::string& tag) {
  const Counts rows = equal_parts("all_to_all", x, communicator.size());
  return all_to_all(x, rows, rows, communicator, tag);
}

Tensor all_to_all(const Tensor& x, const Counts& rows_out, const Counts& rows_in,
                  Communicator& communicator, const std::string& tag) {
  check_axis("all_to_all", x);
  const Tensor y = with_rows(x, sum_of(rows_in));
  communicator.all_to_all(dense_copy(x), elements(rows_out, x), y, elements(rows_in, x), tag)
      .wait();
  return with_gradient(
      "all_to_all", y, x,
      [&communicator, rows_out, rows_in, tag = "gradient of " + tag](const Tensor& grad) {
        return all_to_all(grad, rows_in, rows_out, communicator, tag);
      });
}

Tensor send(const Tensor& x, int to, Communicator& communicator, const std::string& tag) {
  communicator.send(dense_copy(x), to, tag).wait();
  return with_gradient(
      "send", zeros({}, {x.dtype(), x.device()}), x,
      [&communicator, to, shape = x.shape(), tag = "gradient of " + tag](const Tensor& receipt) {
        return received(shape, receipt.dtype(), to, communicator, tag);
      });
}

Tensor recv(const Shape& shape, Dtype dtype, int from, Communicator& communicator,
            const std::string& tag) {
  const Tensor tie = zeros({}, {.dtype = dtype});  // what is received depends on nothing here
  require_grad(tie);
  return with_gradient("recv", received(shape, dtype, from, communicator, tag), tie,
                       [&communicator, from, tag = "gradient of " + tag](const Tensor& grad) {
                         communicator.send(dense_copy(grad), from, tag).wait();
                         return zeros({}, {.dtype = grad.dtype()});
                       });
}

}  // namespace capstan::distributed::differentiable

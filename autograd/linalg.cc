#include "autograd/linalg.h"

#include "autograd/elementwise.h"
#include "autograd/matmul.h"
#include "autograd/operands.h"
#include "autograd/rearrange.h"
#include "autograd/record.h"
#include "autograd/views.h"
#include "core/backend.h"
#include "core/create.h"
#include "core/raise.h"

namespace capstan {

namespace {

void check_matrices(const char* operation, const Tensor& a) {
  check_floating(operation, a.dtype());
  if (a.rank() < 2)
    raise<ShapeError>("[{}] takes matrices [..., m, n], got {}", operation, a.shape());
}

void check_square(const char* operation, const Tensor& a) {
  check_matrices(operation, a);
  if (a.size(-2) != a.size(-1)) {
    raise<ShapeError>("[{}] takes square matrices [..., n, n], got {}", operation, a.shape());
  }
}

void check_no_gradient(const char* operation, const Tensor& a) {
  if (must_record(inputs(a))) {
    raise<GradientError>("[{}] has no gradient: detach() its argument", operation);
  }
}

/// a's shape with other matrices (or vectors, for columns -1) at the end.
Shape with_matrices(const Tensor& a, int64_t rows, int64_t columns = -1) {
  Shape shape = a.shape();
  shape.erase(a.rank() - 1);
  shape[a.rank() - 2] = rows;
  if (columns >= 0) shape.push_back(columns);
  return shape;
}

int64_t batch_size(const Tensor& a) { return numel(with_matrices(a, 1)); }

/// A dense batch [batch, rows, columns] of the matrices of `a`.
Tensor batch_of(const Tensor& a) {
  return reshape(contiguous(detach(a)), {batch_size(a), a.size(-2), a.size(-1)});
}

/// Results for the matrices of `a`: a batch that a kernel fills, and the shape it gets afterwards.
struct Filled {
  Tensor batch;
  Shape shape;

  Filled(const Tensor& a, int64_t rows, int64_t columns = -1)
      : shape(with_matrices(a, rows, columns)) {
    Shape flat{batch_size(a), rows};
    if (columns >= 0) flat.push_back(columns);
    batch = empty(flat, {a.dtype(), a.device()});
  }
  Tensor get() const { return reshaped(batch, shape); }
};

void check_fit(const char* operation, int64_t unfit, const char* rule) {
  if (unfit >= 0) raise<ValueError>("[{}] matrix {} of the batch {}", operation, unfit, rule);
}

Tensor transposed(const Tensor& a) { return transpose(a, -2, -1); }

}  // namespace

Tensor cholesky(const Tensor& a) {
  check_square("cholesky", a);
  const Filled lower(a, a.size(-1), a.size(-1));
  if (a.numel() > 0) {
    check_fit("cholesky", backend(a).cholesky(batch_of(a), lower.batch),
              "is not positive definite");
  }
  const Tensor out = lower.get();
  // Murray ("Differentiation of the Cholesky decomposition", 2016), section 3.1, symmetric form:
  // half of L^-T (P + P^T) L^-1, where P is the lower triangle of L^T grad with its diagonal
  // halved.
  return record("cholesky", out, inputs(a), [out = Saved::output(out)](const Tensor& grad) {
    const Tensor l = out.get(), product = matmul(transposed(l), tril(grad));
    const Tensor p = (tril(product) + tril(product, -1)) * 0.5;
    const Tensor symmetric = p + transposed(p);
    const Tensor right = solve(transposed(l), symmetric);                     // L^-T S
    const Tensor both = transposed(solve(transposed(l), transposed(right)));  // L^-T S L^-1
    return gradients((both + transposed(both)) * 0.25);
  });
}

Tensor solve(const Tensor& a, const Tensor& b) {
  check_square("solve", a);
  check_matrices("solve", b);
  check_alike("solve", a, b);
  if (a.size(-1) != b.size(-2)) {
    raise<ShapeError>("[solve] takes [..., n, n] and [..., n, m], got {} and {}", a.shape(),
                      b.shape());
  }
  // Broadcast what lies in front of the matrices; as axes of size 1 they fit each other.
  Shape left = with_matrices(a, 1, 1), right = with_matrices(b, 1, 1);
  Shape batch_a = broadcast("solve", left, right), batch_b = batch_a;
  const int last = batch_a.rank() - 1;
  batch_a[last - 1] = batch_a[last] = batch_b[last - 1] = a.size(-1);
  batch_b[last] = b.size(-1);
  const Tensor matrices = expand(a, batch_a), sides = expand(b, batch_b);

  const Filled x(sides, b.size(-2), b.size(-1));
  if (sides.numel() > 0) {
    const int64_t unfit = backend(a).solve(batch_of(matrices), batch_of(sides), x.batch);
    check_fit("solve", unfit, "is singular");
  }
  const Tensor out = x.get();
  return record(
      "solve", out, inputs(matrices, sides),
      [matrices = Saved(matrices), out = Saved::output(out)](const Tensor& grad, Wanted wanted) {
        const Tensor for_b = solve(transposed(matrices.get()), grad);  // [..., n, m]
        const auto for_a = [&] { return -matmul(for_b, transposed(out.get())); };
        return gradients(wanted[0] ? for_a() : Tensor(), Tensor(for_b));
      });
}

Tensor inverse(const Tensor& a) {
  check_square("inverse", a);
  const Filled x(a, a.size(-1), a.size(-1));
  if (a.numel() > 0) {
    const Tensor batch = batch_of(a);
    const Tensor identity = expand(eye(a.size(-1), {a.dtype(), a.device()}), batch.shape());
    check_fit("inverse", backend(a).solve(batch, contiguous(identity), x.batch), "is singular");
  }
  const Tensor out = x.get();
  return record("inverse", out, inputs(a), [out = Saved::output(out)](const Tensor& grad) {
    const Tensor back = transposed(out.get());
    return gradients(-matmul(matmul(back, grad), back));
  });
}

Qr qr(const Tensor& a) {
  check_matrices("qr", a);
  check_no_gradient("qr", a);
  const int64_t rank = std::min(a.size(-2), a.size(-1));
  const Filled q(a, a.size(-2), rank), r(a, rank, a.size(-1));
  if (a.numel() > 0) backend(a).qr(batch_of(a), q.batch, r.batch);
  return {q.get(), r.get()};
}

Svd svd(const Tensor& a) {
  check_matrices("svd", a);
  check_no_gradient("svd", a);
  const int64_t rank = std::min(a.size(-2), a.size(-1));
  const Filled u(a, a.size(-2), rank), s(a, rank), v(a, a.size(-1), rank);
  if (a.numel() > 0) backend(a).svd(batch_of(a), u.batch, s.batch, v.batch);
  return {u.get(), s.get(), v.get()};
}

Eigh eigh(const Tensor& a) {
  check_square("eigh", a);
  check_no_gradient("eigh", a);
  const Filled values(a, a.size(-1)), vectors(a, a.size(-1), a.size(-1));
  if (a.numel() > 0) {
    const int64_t unfit = backend(a).eigh(batch_of(a), values.batch, vectors.batch);
    check_fit("eigh", unfit, "has eigenvalues that cannot be found");
  }
  return {values.get(), vectors.get()};
}

}  // namespace capstan

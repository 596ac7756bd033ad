// Decompositions and equations of small matrices, by Eigen; one matrix belongs to one thread.
#define EIGEN_DONT_PARALLELIZE

#include <Eigen/Cholesky>
#include <Eigen/Eigenvalues>
#include <Eigen/LU>
#include <Eigen/QR>
#include <Eigen/SVD>
#include <atomic>
#include <limits>

#include "core/cpu/cpu_backend.h"
#include "core/threads.h"

namespace capstan {
namespace {

template <class T>
using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// Matrix i of a dense batch [batch, rows, columns]; a vector of [batch, rows] has one column.
template <class T>
auto matrix(const Tensor& x, int64_t i) {
  const int64_t rows = x.size(1), columns = x.rank() == 3 ? x.size(2) : 1;
  return Eigen::Map<const Matrix<T>>(x.data<T>() + i * rows * columns, rows, columns);
}
template <class T>
auto mutable_matrix(const Tensor& x, T* first, int64_t i) {
  const int64_t rows = x.size(1), columns = x.rank() == 3 ? x.size(2) : 1;
  return Eigen::Map<Matrix<T>>(first + i * rows * columns, rows, columns);
}

/// Calls f(i) for each matrix of the batch, and returns the number of the first for which it gives
/// false, or -1.
template <class F>
int64_t for_each_matrix(int64_t batch, const F& f) {
  std::atomic<int64_t> unfit = batch;
  parallel_for(batch, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      if (f(i)) continue;
      int64_t first = unfit;
      while (i < first && !unfit.compare_exchange_weak(first, i)) {
      }
    }
  });
  return unfit < batch ? unfit.load() : -1;
}

}  // namespace

int64_t CpuBackend::cholesky(const Tensor& a, const Tensor& lower) {
  return visit_floating(a.dtype(), "cholesky", [&]<class T>() {
    T* const out = lower.mutable_data<T>();
    return for_each_matrix(a.size(0), [&](int64_t i) {
      const Eigen::LLT<Matrix<T>> factors(matrix<T>(a, i));
      mutable_matrix(lower, out, i) = factors.matrixL();
      return factors.info() == Eigen::Success;
    });
  });
}

int64_t CpuBackend::solve(const Tensor& a, const Tensor& b, const Tensor& x) {
  return visit_floating(a.dtype(), "solve", [&]<class T>() {
    T* const out = x.mutable_data<T>();
    return for_each_matrix(a.size(0), [&](int64_t i) {
      const Eigen::PartialPivLU<Matrix<T>> factors(matrix<T>(a, i));
      mutable_matrix(x, out, i) = factors.solve(matrix<T>(b, i));
      return (factors.matrixLU().diagonal().array() != T{0}).all();  // a NaN is no zero: it spreads
    });
  });
}

void CpuBackend::qr(const Tensor& a, const Tensor& q, const Tensor& r) {
  visit_floating(a.dtype(), "qr", [&]<class T>() {
    T* const qs = q.mutable_data<T>();
    T* const rs = r.mutable_data<T>();
    for_each_matrix(a.size(0), [&](int64_t i) {
      const Eigen::HouseholderQR<Matrix<T>> factors(matrix<T>(a, i));
      const int64_t rank = r.size(1);
      Matrix<T> signs = factors.matrixQR().diagonal();
      signs = signs.unaryExpr([](T d) { return d < T{0} ? T{-1} : T{1}; }).eval();
      const Matrix<T> upper =
          factors.matrixQR().topRows(rank).template triangularView<Eigen::Upper>();
      mutable_matrix(r, rs, i) = signs.col(0).asDiagonal() * upper;
      mutable_matrix(q, qs, i) =
          factors.householderQ() * Matrix<T>::Identity(q.size(1), rank) * signs.col(0).asDiagonal();
      return true;
    });
  });
}

void CpuBackend::svd(const Tensor& a, const Tensor& u, const Tensor& s, const Tensor& v) {
  visit_floating(a.dtype(), "svd", [&]<class T>() {
    T* const us = u.mutable_data<T>();
    T* const ss = s.mutable_data<T>();
    T* const vs = v.mutable_data<T>();
    for_each_matrix(a.size(0), [&](int64_t i) {
      // Jacobi's method: slower than others, but accurate for small singular values too.
      const Eigen::JacobiSVD<Matrix<T>> parts(matrix<T>(a, i),
                                              Eigen::ComputeThinU | Eigen::ComputeThinV);
      if (parts.info() == Eigen::Success) {
        mutable_matrix(u, us, i) = parts.matrixU();
        mutable_matrix(s, ss, i) = parts.singularValues();
        mutable_matrix(v, vs, i) = parts.matrixV();
        return true;
      }
      for (const auto& [part, first] : {std::pair{u, us}, {s, ss}, {v, vs}}) {  // NaN in, NaN out
        mutable_matrix(part, first, i).setConstant(std::numeric_limits<T>::quiet_NaN());
      }
      return true;
    });
  });
}

int64_t CpuBackend::eigh(const Tensor& a, const Tensor& values, const Tensor& vectors) {
  return visit_floating(a.dtype(), "eigh", [&]<class T>() {
    T* const ws = values.mutable_data<T>();
    T* const vs = vectors.mutable_data<T>();
    return for_each_matrix(a.size(0), [&](int64_t i) {
      const Eigen::SelfAdjointEigenSolver<Matrix<T>> parts(matrix<T>(a, i));
      mutable_matrix(values, ws, i) = parts.eigenvalues();
      mutable_matrix(vectors, vs, i) = parts.eigenvectors();
      return parts.info() == Eigen::Success;
    });
  });
}

}  // namespace capstan

// Defines multiply(), a single-threaded matrix product by Eigen for operands that lie by rows or by
// columns.
#pragma once

#define EIGEN_DONT_PARALLELIZE  // kernels split their own work, the same way for any thread count

#include <Eigen/Core>
#include <cstdint>

namespace capstan::cpu {

/// A matrix in memory; one of the steps is 1 (a size of 1 may have any step).
template <class T>
struct Matrix {
  const T* data;
  int64_t rows, columns;
  int64_t row_step, column_step;

  static Matrix dense(const T* data, int64_t rows, int64_t columns) {
    return {data, rows, columns, columns, 1};
  }
  Matrix transposed() const { return {data, columns, rows, column_step, row_step}; }
  Matrix middle_rows(int64_t begin, int64_t end) const {
    return {data + begin * row_step, end - begin, columns, row_step, column_step};
  }
};

template <class T, int Order>
using Plain = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Order>;

/// Calls f(map) with the Eigen view of `matrix`, by rows or by columns.
template <class T, class F>
void visit_order(const Matrix<T>& m, const F& f) {
  using Outer = Eigen::OuterStride<>;
  if (m.column_step == 1 || m.columns == 1) {
    const int64_t step = m.rows == 1 ? m.columns : m.row_step;
    f(Eigen::Map<const Plain<T, Eigen::RowMajor>, 0, Outer>(m.data, m.rows, m.columns, step));
  } else {
    const int64_t step = m.column_step;
    f(Eigen::Map<const Plain<T, Eigen::ColMajor>, 0, Outer>(m.data, m.rows, m.columns, step));
  }
}

/// out = a b, or out += a b where `add`; out dense by rows.
template <class T>
void multiply(const Matrix<T>& a, const Matrix<T>& b, T* out, bool add = false) {
  Eigen::Map<Plain<T, Eigen::RowMajor>> product(out, a.rows, b.columns);
  visit_order(a, [&](const auto& left) {
    visit_order(b, [&](const auto& right) {
      if (add) {
        product.noalias() += left * right;
      } else {
        product.noalias() = left * right;
      }
    });
  });
}

}  // namespace capstan::cpu

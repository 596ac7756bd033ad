// Kernels that do nothing; see meta_backend.h for why.
#include "core/meta/meta_backend.h"

#include "core/raise.h"

namespace capstan {
namespace {

class MetaBackend final : public Backend {
 public:
  void fill(const Tensor&, double) override {}
  void copy(const Tensor&, const Tensor&) override {}
  void unary(Unary, const Tensor&, const Tensor&) override {}
  void binary(Binary, const Tensor&, const Tensor&, const Tensor&) override {}
  void compare(Compare, const Tensor&, const Tensor&, const Tensor&) override {}
  void where(const Tensor&, const Tensor&, const Tensor&, const Tensor&) override {}

  void reduce(Reduction, const Tensor&, const Tensor&) override {}
  void extreme_position(Reduction, const Tensor&, int, const Tensor&) override {}
  void cumulative_sum(const Tensor&, int, const Tensor&) override {}
  double sum_of_squares(const Tensor&) override {
    raise<DeviceError>("[sum_of_squares] a tensor on meta has a shape but no values");
  }

  void matmul(const Tensor&, const Tensor&, const Tensor&) override {}

  void take_rows(const Tensor&, const Tensor&, const Tensor&) override {}
  void add_rows(const Tensor&, const Tensor&, const Tensor&) override {}

  void gather(const Tensor&, int, const Tensor&, const Tensor&) override {}
  void scatter(const Tensor&, int, const Tensor&, const Tensor&, bool) override {}
  Tensor true_positions(const Tensor&) override {
    raise<DeviceError>("[true_positions] a tensor on meta has a shape but no values");
  }
  void order(const Tensor&, bool, const Tensor&) override {}

  int64_t cholesky(const Tensor&, const Tensor&) override { return -1; }
  int64_t solve(const Tensor&, const Tensor&, const Tensor&) override { return -1; }
  void qr(const Tensor&, const Tensor&, const Tensor&) override {}
  void svd(const Tensor&, const Tensor&, const Tensor&, const Tensor&) override {}
  int64_t eigh(const Tensor&, const Tensor&, const Tensor&) override { return -1; }

  void log_softmax(const Tensor&, const Tensor&) override {}
  void log_softmax_grad(const Tensor&, const Tensor&, const Tensor&) override {}
  void cross_entropy(const Tensor&, const Tensor&, int64_t, const Tensor&, const Tensor&) override {
  }
  void cross_entropy_grad(const Tensor&, const Tensor&, const Tensor&, int64_t, const Tensor&,
                          const Tensor&) override {}

  void ctc_loss(const Tensor&, const Tensor&, const CtcLengths&, int64_t, const Tensor&,
                const Tensor&) override {}
  void ctc_loss_grad(const Tensor&, const Tensor&, const Tensor&, const CtcLengths&, int64_t,
                     const Tensor&, const Tensor&, const Tensor&) override {}

  void normalize(const Tensor&, bool, double, const Tensor&, const Tensor&) override {}
  void normalize_grad(const Tensor&, const Tensor&, const Tensor&, bool, double,
                      const Tensor&) override {}
  void attention(const Tensor&, const Tensor&, const Tensor&, const Tensor*, bool, double,
                 const Tensor&, const Tensor&) override {}
  void attention_grad(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor*,
                      bool, double, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                      const Tensor&) override {}

  void conv2d(const Tensor&, const Tensor&, const Tensor*, const Window2d&,
              const Tensor&) override {}
  void conv2d_input_grad(const Tensor&, const Tensor&, const Window2d&, const Tensor&) override {}
  void conv2d_weight_grad(const Tensor&, const Tensor&, const Window2d&, const Tensor&) override {}
  void max_pool2d(const Tensor&, const Window2d&, const Tensor&, const Tensor&) override {}
  void max_pool2d_grad(const Tensor&, const Tensor&, const Tensor&) override {}

  void recurrent_step(Cell, const Tensor&, const Tensor&, const Tensor*, const Tensor&,
                      const Tensor&, const Tensor&) override {}
  void recurrent_step_grad(Cell, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                           const Tensor&, const Tensor&) override {}

  void uniform(uint64_t, uint64_t, double, double, const Tensor&) override {}
  void normal(uint64_t, uint64_t, double, double, const Tensor&) override {}
  void integers(uint64_t, uint64_t, int64_t, uint64_t, const Tensor&) override {}
  void dropout(uint64_t, uint64_t, double, const Tensor&, const Tensor&) override {}

  void update(std::span<const Update>) override {}
};

}  // namespace

Backend& meta_backend() {
  static MetaBackend backend;
  return backend;
}

}  // namespace capstan

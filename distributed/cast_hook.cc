// Implements sum_in().
#include "distributed/cast_hook.h"

#include <vector>

#include "core/raise.h"

namespace capstan::distributed {
namespace {

class CastHook : public BucketHook {
 public:
  explicit CastHook(Dtype dtype) : dtype_(dtype) {}

  std::string name() const override { return "sum in " + to_string(dtype_); }

  void prepare(std::span<const GradientBucket> buckets, Communicator& communicator) override {
    wire_.clear();
    for (const GradientBucket& bucket : buckets) {
      const bool same = bucket.flat.dtype() == dtype_;
      wire_.push_back(same ? bucket.flat
                           : communicator.shared_zeros(bucket.flat.shape(),
                                                       {dtype_, bucket.flat.device()}, bucket.tag));
    }
  }

  std::optional<Work> round(int round, const GradientBucket& bucket,
                            Communicator& communicator) override {
    const Tensor& wire = wire_[bucket.number];
    const bool same = wire.same(bucket.flat);
    if (round > 0) {
      if (!same) copy_elements(wire, bucket.flat);
      return std::nullopt;
    }
    if (!same) copy_elements(bucket.flat, wire);
    return communicator.all_reduce(wire, Reduce::sum, bucket.tag);
  }

 private:
  const Dtype dtype_;
  std::vector<Tensor> wire_;  // what travels, by bucket
};

}  // namespace

std::shared_ptr<BucketHook> sum_in(Dtype dtype) {
  if (!is_floating(dtype)) wrong_dtype("sum_in", "a floating point dtype", dtype);
  return std::make_shared<CastHook>(dtype);
}

}  // namespace capstan::distributed

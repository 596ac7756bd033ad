#include "distributed/averaged_buffers.h"

#include "core/raise.h"

namespace capstan::distributed {

AveragedBuffers::AveragedBuffers(nn::Module& model, const NamePatterns& excluded) {
  for (const auto& [name, buffer] : model.buffers()) {
    if (buffer.policy != nn::BufferPolicy::averaged || excluded.fit(name)) continue;
    if (!is_floating(buffer.dtype())) {
      raise<DtypeError>(
          "[averaged_buffers] '{}' is {}, which has no average; declare it replicated or local",
          name, buffer.dtype());
    }
    buffers_.emplace_back(name, buffer);
    elements_ += buffer.numel();
  }
}

void AveragedBuffers::average(double share, Communicator& communicator) const {
  if (buffers_.empty() || communicator.size() == 1) return;
  const Tensor sums = empty({elements_}, {.dtype = Dtype::float64});
  const auto for_each = [&](const auto& visit) {
    int64_t offset = 0;
    for (const auto& [_, buffer] : buffers_) {
      Layout slice = Layout::dense(buffer.shape());
      slice.offset = std::exchange(offset, offset + buffer.numel());
      visit(buffer, view_of(sums, slice));
    }
  };
  for_each([](const Tensor& buffer, const Tensor& slice) { copy_elements(buffer, slice); });
  scale_elements(sums, share);
  communicator.all_reduce(sums, Reduce::sum, "averaged buffers").wait();
  for_each([](const Tensor& buffer, const Tensor& slice) { copy_elements(slice, buffer); });
}

}  // namespace capstan::distributed

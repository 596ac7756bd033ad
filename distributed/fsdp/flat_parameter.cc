// Implements FlatParameter.
#include "distributed/fsdp/flat_parameter.h"

#include <algorithm>
#include <utility>

#include "core/storage.h"
#include "distributed/buckets.h"
#include "nn/materialize.h"

namespace capstan::distributed {
namespace {

/// This rank's part of a tensor that is cut evenly among `ranks`.
Tensor part_among(const Communicator& ranks, const Tensor& whole) {
  const int64_t length = whole.numel() / ranks.size();
  return view_of(whole, {{length}, {1}, ranks.rank() * length});
}

}  // namespace

FlatParameter::FlatParameter(std::string tag, NamedTensors parameters, Communicator& ranks,
                             bool stays, Device shard_device, const Recipe* recipe, Device device)
    : tag_(std::move(tag)), parameters_(std::move(parameters)), rank_(ranks.rank()) {
  const TensorOptions options{parameters_[0].second.dtype(), device};
  std::vector<int64_t> begins;
  int64_t elements = 0;
  for (const auto& [_, parameter] : parameters_) {
    begins.push_back(elements);
    elements += aligned(parameter.numel(), options.dtype);
  }
  const int64_t length = aligned((elements + ranks.size() - 1) / ranks.size(), options.dtype);
  whole_ = zeros({length * ranks.size()}, options);
  const int64_t shard_begin = rank_ * length, shard_end = shard_begin + length;
  for (size_t p = 0; p < parameters_.size(); ++p) {
    const Tensor& parameter = parameters_[p].second;
    const int64_t begin = std::clamp(shard_begin, begins[p], begins[p] + parameter.numel());
    const int64_t end = std::clamp(shard_end, begins[p], begins[p] + parameter.numel());
    if (begin < end) {
      ranges_.push_back({begin - begins[p], end - begins[p], begin - shard_begin});
    } else {
      ranges_.push_back({});
    }
    Layout place = Layout::dense(parameter.shape());
    place.offset = begins[p];
    const Tensor view = view_of(whole_, place);
    copy_elements(recipe ? recipe->make(parameter, device) : parameter, view);
    nn::become(parameter, view);
  }
  shard_is_view_ = stays && shard_device == options.device;
  shard_ = view_of(whole_, {{length}, {1}, shard_begin});
  if (!shard_is_view_) {
    shard_ = empty({length}, {options.dtype, shard_device});
    adopt();
  }
  if (!stays) release();
}

Tensor FlatParameter::own_place() const {
  return view_of(whole_, {shard_.shape(), {1}, rank_ * shard_.numel()});
}

void FlatParameter::adopt() { copy_elements(own_place(), shard_); }

Work FlatParameter::gather(Communicator& ranks) {
  Communicator& from = near_ ? *near_ : ranks;
  const auto fetch = [&](const Tensor& landing) {
    const Tensor mine = part_among(from, landing);
    copy_elements(near_ ? kept_ : shard_, mine);
    return from.all_gather(mine, landing, "gather " + tag_);
  };
  if (is_gathered()) return fetch(whole_);
  Storage& storage = whole_.storage();
  storage.refill();
  if (std::exchange(changed_, false)) storage.bump_version();  // what a tape saved is gone
  // Otherwise what comes back is what was there. So it is written through another storage over the
  // same memory, past the counter by which the tape would take it for a change.
  const auto other = make_ref<Storage>(storage.data(), storage.bytes(), storage.device(),
                                       [keep = whole_.body().storage] {});
  return fetch(tensor_over(other, whole_.layout(), whole_.dtype()));
}

void FlatParameter::keep(Communicator& near) {
  const Tensor part = part_among(near, whole_);
  kept_ = empty(part.shape(), {part.dtype(), part.device()});
  copy_elements(part, kept_);
  near_ = &near;
}

void FlatParameter::forget_kept() {
  kept_ = Tensor();
  near_ = nullptr;
}

void FlatParameter::release() { whole_.storage().release(); }

Tensor part_of(const Tensor& flat, const FlatParameter::Range& range, const Shape& shape) {
  Shape part = Shape::filled(std::max(shape.rank(), 1), 1);
  part[part.rank() - 1] = range.count();
  Layout layout = Layout::dense(part);
  layout.offset = flat.layout().offset + range.offset;
  return view_of(flat, layout);
}

}  // namespace capstan::distributed

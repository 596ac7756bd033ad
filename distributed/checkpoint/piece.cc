#include "distributed/checkpoint/piece.h"

#include <cstring>

#include "core/raise.h"

namespace capstan::distributed {

Piece whole(std::string name, Tensor values) {
  const Region region = Region::whole(values.shape());
  return {std::move(name), region, std::move(values)};
}

Pieces whole(const NamedTensors& tensors) {
  Pieces pieces;
  for (const auto& [name, tensor] : tensors) pieces.push_back(whole(name, tensor));
  return pieces;
}

Piece of_rank(std::string name, Tensor values, int rank, int ranks) {
  Shape global = values.shape();
  global.insert(0, ranks);
  return {std::move(name), Region::slice(global, 0, rank, 1), std::move(values)};
}

void check(const Piece& piece) {
  const auto& [name, region, values] = piece;
  if (name.empty()) raise<ValueError>("[checkpoint] a piece has no name");
  if (!values.defined()) raise<ValueError>("[checkpoint] the piece of {} has no values", name);
  check(name, region);
  if (values.numel() != region.count()) {
    raise<ShapeError>("[checkpoint] the piece {} of {} needs {} values, got {}", to_string(region),
                      name, region.count(), values.shape());
  }
  if (values.device().kind != Device::Kind::cpu) {
    raise<DeviceError>("[checkpoint] the piece of {} must be on the cpu, it is on {}", name,
                       values.device());
  }
}

int64_t copy_overlap(const Piece& from, const Piece& to) {
  if (from.values.dtype() != to.values.dtype()) {
    raise<DtypeError>("[checkpoint] {} is {} in one piece and {} in another", to.name,
                      from.values.dtype(), to.values.dtype());
  }
  const std::vector<Run> runs = overlap(from.region, to.region);
  if (runs.empty()) return 0;

  const auto dense = [](const Tensor& t) { return t.is_contiguous() ? t : dense_copy(t); };
  const Tensor source = dense(from.values), target = dense(to.values);
  const int64_t size = item_size(source.dtype());
  target.storage().bump_version();
  int64_t copied = 0;
  for (const Run& run : runs) {
    std::memcpy(static_cast<std::byte*>(target.address()) + run.to * size,
                static_cast<const std::byte*>(source.address()) + run.from * size,
                run.count * size);
    copied += run.count;
  }
  if (!target.same(to.values)) copy_elements(target, to.values);
  return copied;
}

}  // namespace capstan::distributed

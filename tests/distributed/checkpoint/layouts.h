// A model made of numbers that are known, and the ways in which ranks may hold it: for tests that
// save by one layout and load by another.
#pragma once

#include <algorithm>
#include <cstring>

#include "distributed/checkpoint/piece.h"

namespace capstan::testing {

using distributed::Piece;
using distributed::Pieces;
using distributed::Region;
using distributed::whole;

/// Tensors of every dtype, of odd sizes, empty ones and scalars; other `seed`s give other elements.
inline NamedTensors known_tensors(int64_t seed) {
  NamedTensors tensors;
  const auto add = [&](const std::string& name, const Shape& shape, Dtype dtype) {
    const Tensor numbers = empty(shape, {.dtype = Dtype::int64}), tensor = empty(shape, {dtype});
    auto* values = numbers.mutable_data<int64_t>();
    const auto salt = static_cast<int64_t>(tensors.size()) * 31 + seed * 7;
    for (int64_t i = 0; i < numbers.numel(); ++i) values[i] = (i * 37 + salt) % 113;
    copy_elements(numbers, tensor);
    if (dtype == Dtype::boolean) {
      for (int64_t i = 0; i < numbers.numel(); ++i) tensor.mutable_data<bool>()[i] = values[i] % 2;
    }
    tensors.emplace_back(name, tensor);
  };
  for (const Dtype dtype : kDtypes) add("layers." + to_string(dtype), {7, 3}, dtype);
  add("embedding.weight", {29, 5}, Dtype::float32);
  add("convolution.weight", {4, 3, 3, 5}, Dtype::float32);
  add("bias", {1}, Dtype::bfloat16);
  add("steps", {}, Dtype::int64);
  add("nothing", {3, 0}, Dtype::float32);
  add("list", {13}, Dtype::float64);
  return tensors;
}

enum class LayoutKind { whole, flat, sliced, sliced_and_flat, stages };
inline constexpr LayoutKind kLayouts[] = {LayoutKind::whole, LayoutKind::flat, LayoutKind::sliced,
                                          LayoutKind::sliced_and_flat, LayoutKind::stages};

/// Part `i` of n when `all` things are shared out, the first parts one larger if need be.
inline std::pair<int64_t, int64_t> share_of(int64_t all, int64_t i, int64_t n) {
  const auto edge = [&](int64_t k) { return all / n * k + std::min(k, all % n); };
  return {edge(i), edge(i + 1)};
}

/// The regions of a tensor that a rank holds. `before` counts the elements of the tensors before
/// it.
inline std::vector<Region> regions_of(LayoutKind kind, const Shape& shape, int64_t number,
                                      int64_t before, int64_t all, int rank, int ranks) {
  const Region whole = Region::whole(shape);
  const auto slice = [&](int64_t i, int64_t n) {
    if (shape.rank() == 0) return whole;  // everybody has it
    const int64_t axis = number % shape.rank();
    const auto [first, last] = share_of(shape[static_cast<int>(axis)], i, n);
    return Region::slice(shape, axis, first, last - first);
  };
  switch (kind) {
    case LayoutKind::whole:
      return {whole};
    case LayoutKind::flat: {  // as if all tensors lay one after another
      const auto [first, last] = share_of(all, rank, ranks);
      const auto clip = [&](int64_t at) {
        return std::clamp<int64_t>(at - before, 0, whole.count());
      };
      return {whole.range(clip(first), clip(last))};
    }
    case LayoutKind::sliced:
      return {slice(rank, ranks)};
    case LayoutKind::sliced_and_flat: {  // two slices, each flat over every second rank
      const int slices = ranks % 2 == 0 ? 2 : 1;
      const Region part = slice(rank % slices, slices);
      const auto [first, last] = share_of(part.count(), rank / slices, ranks / slices);
      return {part.range(first, last)};
    }
    case LayoutKind::stages:
      break;
  }
  return number % ranks == rank ? std::vector<Region>{whole} : std::vector<Region>{};
}

/// What a rank holds of `tensors`: copies of their elements, or zeros to be filled.
inline Pieces pieces_of(const NamedTensors& tensors, LayoutKind kind, int rank, int ranks,
                        bool filled) {
  int64_t all = 0, before = 0;
  for (const auto& [_, tensor] : tensors) all += tensor.numel();
  Pieces pieces;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto& [name, tensor] = tensors[i];
    for (const Region& region :
         regions_of(kind, tensor.shape(), static_cast<int64_t>(i), before, all, rank, ranks)) {
      const Shape shape = region.is_box() ? region.shape : Shape{region.count()};
      pieces.push_back({name, region, zeros(shape, {tensor.dtype()})});
      if (filled) copy_overlap(whole(name, tensor), pieces.back());
    }
    before += tensor.numel();
  }
  return pieces;
}

/// True if both have the same pieces with the same bytes.
inline bool same(const Pieces& a, const Pieces& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Piece& x, const Piece& y) {
    return x.name == y.name && x.region == y.region && x.values.bytes() == y.values.bytes() &&
           (x.values.bytes() == 0 ||
            std::memcmp(x.values.address(), y.values.address(), x.values.bytes()) == 0);
  });
}

}  // namespace capstan::testing

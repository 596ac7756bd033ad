// Implements pieces_of().
#include "distributed/fsdp/pieces.h"

#include "core/raise.h"

namespace capstan::distributed {
namespace {

/// A trained parameter's region by its name.
std::map<std::string, Region> regions_of(const Fsdp& fsdp, const Boxes& boxes) {
  std::map<std::string, Region> regions;
  for (const Unit& unit : fsdp.units()) {
    for (const auto& flat : unit.flats) {
      for (size_t p = 0; p < flat->parameters().size(); ++p) {
        const auto& [name, parameter] = flat->parameters()[p];
        const auto box = boxes.find(name);
        const Region all = box == boxes.end() ? Region::whole(parameter.shape()) : box->second;
        const FlatParameter::Range range = flat->range(p);
        regions.emplace(name, all.range(range.first, range.last));
      }
    }
  }
  return regions;
}

}  // namespace

Pieces pieces_of(const Fsdp& fsdp, const Boxes& boxes) {
  const auto regions = regions_of(fsdp, boxes);
  Pieces pieces;
  for (const auto& [name, part] : fsdp.parameters()) {
    if (part.numel() > 0) pieces.push_back({name, regions.at(name), part});
  }
  return pieces;
}

Pieces pieces_of(const Fsdp& fsdp, const NamedTensors& state, const Boxes& boxes) {
  const auto regions = regions_of(fsdp, boxes);
  std::map<std::string, Shape> shapes;
  for (const auto& [name, part] : fsdp.parameters()) shapes.emplace(name, part.shape());
  Pieces pieces;
  for (const auto& [name, value] : state) {
    const std::string parameter = name.substr(0, name.rfind('.'));
    const auto shape = shapes.find(parameter);
    if (shape == shapes.end()) raise<ValueError>("[pieces_of] '{}' is of no parameter", name);
    if (value.rank() == 0) {
      pieces.push_back(whole(name, value));
    } else if (value.shape() != shape->second) {
      raise<ShapeError>(
          "[pieces_of] '{}' of {} is not like this rank's part of its parameter, {}: the optimizer "
          "does not work element by element",
          name, value.shape(), shape->second);
    } else if (value.numel() > 0) {
      pieces.push_back({name, regions.at(parameter), value});
    }
  }
  return pieces;
}

}  // namespace capstan::distributed

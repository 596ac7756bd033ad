// Implements pieces_of().
#include "distributed/pieces.h"

#include "core/raise.h"

namespace capstan::distributed {
namespace {

/// What is stepped of a parameter, as a piece.
std::map<std::string, Piece> pieces_by_name(const GradientPath& path, const Boxes& boxes) {
  std::map<std::string, Piece> pieces;
  for (size_t i = 0; i < path.parameters().size(); ++i) {
    const auto& [name, part] = path.parameters()[i];
    const Region region = path.region(i);
    const auto box = boxes.find(name);
    pieces.emplace(
        name, Piece{name, box == boxes.end() ? region : box->second.range(region.begin, region.end),
                    part});
  }
  return pieces;
}

}  // namespace

Pieces pieces_of(const GradientPath& path, const Boxes& boxes) {
  const auto known = pieces_by_name(path, boxes);
  Pieces pieces;
  for (const auto& [name, part] : path.parameters()) {
    if (part.numel() > 0) pieces.push_back(known.at(name));
  }
  return pieces;
}

Pieces pieces_of(const GradientPath& path, const NamedTensors& state, const Boxes& boxes) {
  const auto known = pieces_by_name(path, boxes);
  Pieces pieces;
  for (const auto& [name, value] : state) {
    const auto parameter = known.find(name.substr(0, name.rfind('.')));
    if (parameter == known.end()) raise<ValueError>("[pieces_of] '{}' is of no parameter", name);
    const auto& [_, region, part] = parameter->second;
    if (value.rank() > 0 && value.shape() == part.shape()) {
      if (value.numel() > 0) pieces.push_back({name, region, value});
    } else if (value.rank() == 0 || part.shape() == region.shape) {  // of a parameter in one part
      pieces.push_back(whole(name, value));
    } else {
      raise<ShapeError>(
          "[pieces_of] '{}' of {} is not like this rank's part of its parameter, {}: the optimizer "
          "does not work element by element",
          name, value.shape(), part.shape());
    }
  }
  return pieces;
}

}  // namespace capstan::distributed

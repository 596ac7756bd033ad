// Implements pieces_of().
#include "distributed/pieces.h"

#include <map>

#include "core/raise.h"

namespace capstan::distributed {
namespace {

std::map<std::string, Piece> by_name(Pieces pieces) {
  std::map<std::string, Piece> found;
  for (Piece& piece : pieces) found.emplace(piece.name, std::move(piece));
  return found;
}

}  // namespace

Pieces pieces_of(const GradientPath& path, nn::Module& model) {
  const auto known = by_name(path.pieces());
  Pieces pieces;
  for (const auto& [name, parameter] : model.parameters()) {
    const auto held = known.find(name);
    if (held == known.end()) {
      pieces.push_back(whole(name, parameter));
    } else if (held->second.region.count() > 0) {
      pieces.push_back(held->second);
    }
  }
  return pieces;
}

Pieces pieces_of(const GradientPath& path, const NamedTensors& state) {
  const auto known = by_name(path.pieces());
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

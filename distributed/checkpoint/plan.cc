#include "distributed/checkpoint/plan.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <regex>
#include <tuple>

#include "core/raise.h"

namespace capstan::distributed {
namespace {

using nlohmann::json;

std::vector<int64_t> list(const Shape& shape) { return {shape.begin(), shape.end()}; }

Shape shape_from(const json& value) {
  const auto sizes = value.get<std::vector<int64_t>>();
  return Shape(std::span(sizes));
}

/// One region of a tensor, and who has it.
struct Shared {
  const Outline* outline;
  std::vector<std::pair<int, size_t>> holders;  // rank, and number of the outline there
  int64_t bytes() const { return outline->region.count() * item_size(outline->dtype); }
};

/// All regions of one tensor, in the order in which ranks have them.
struct Parts {
  int rank;  // the first to have one
  std::vector<Shared> regions;
};

using Tensors = std::map<std::pair<std::string, std::string>, Parts>;  // by group and name

void require_same(const Outline& a, int a_rank, const Outline& b, int b_rank) {
  if (a.region.global == b.region.global && a.dtype == b.dtype) return;
  raise<ValueError>("[checkpoint] {} is {} {} on rank {} and {} {} on rank {}", a.name, a.dtype,
                    a.region.global, a_rank, b.dtype, b.region.global, b_rank);
}

Tensors tensors_of(const std::vector<std::vector<Outline>>& held) {
  Tensors tensors;
  for (int rank = 0; rank < static_cast<int>(held.size()); ++rank) {
    for (size_t i = 0; i < held[rank].size(); ++i) {
      const Outline& outline = held[rank][i];
      const auto [at, _] = tensors.try_emplace({outline.group, outline.name}, Parts{rank, {}});
      std::vector<Shared>& regions = at->second.regions;
      if (!regions.empty()) require_same(*regions[0].outline, at->second.rank, outline, rank);
      auto same = std::ranges::find_if(
          regions, [&](const Shared& s) { return s.outline->region == outline.region; });
      if (same == regions.end()) same = regions.insert(same, {&outline, {}});
      same->holders.emplace_back(rank, i);
    }
  }
  return tensors;
}

void require_covered(const std::string& name, const Parts& parts) {
  std::vector<Region> regions;
  for (const Shared& shared : parts.regions) regions.push_back(shared.outline->region);
  const std::string fault = cover_fault(regions[0].global, regions);
  if (!fault.empty()) raise<ValueError>("[checkpoint] of {}, {}", name, fault);
}

}  // namespace

std::vector<Outline> outlines(const Groups& groups) {
  static const std::regex safe("[a-z0-9_]+");
  std::vector<Outline> all;
  for (const auto& [group, pieces] : groups) {
    if (!std::regex_match(group, safe)) {
      raise<ValueError>("[checkpoint] groups are named with a-z, 0-9 and _, got '{}'", group);
    }
    std::map<std::string, std::vector<const Region*>> seen;
    for (const Piece& piece : pieces) {
      check(piece);
      for (const Region* other : seen[piece.name]) {
        if (*other == piece.region) {
          raise<ValueError>("[checkpoint] there are two pieces {} of {}", to_string(piece.region),
                            piece.name);
        }
      }
      seen[piece.name].push_back(&piece.region);
      all.push_back({group, piece.name, piece.values.dtype(), piece.region});
    }
  }
  return all;
}

std::string to_json(const std::vector<Outline>& outlines) {
  json all = json::array();
  for (const auto& [group, name, dtype, r] : outlines) {
    all.push_back({group, name, static_cast<int>(dtype), list(r.global), list(r.start),
                   list(r.shape), r.begin, r.end});
  }
  try {
    return all.dump();
  } catch (const json::type_error& error) {
    raise<ValueError>("[checkpoint] names must be UTF-8: {}", error.what());
  }
}

std::vector<Outline> parse_outlines(const std::string& text) {
  std::vector<Outline> outlines;
  for (const json& o : json::parse(text)) {
    outlines.push_back({o[0], o[1], static_cast<Dtype>(o[2].get<int>()),
                        Region{shape_from(o[3]), shape_from(o[4]), shape_from(o[5]), o[6], o[7]}});
  }
  return outlines;
}

SavePlan plan_save(const std::vector<std::vector<Outline>>& held) {
  const int ranks = static_cast<int>(held.size());
  SavePlan plan;
  plan.manifest.ranks = ranks;
  plan.writes.resize(ranks);
  const Tensors tensors = tensors_of(held);

  std::vector<const Shared*> copies;
  std::vector<int64_t> load(ranks);        // bytes to write, by rank
  std::map<const Shared*, size_t> writer;  // among the holders
  for (const auto& [key, parts] : tensors) {
    require_covered(key.second, parts);
    for (const Shared& shared : parts.regions) {
      if (shared.bytes() == 0) continue;
      if (shared.holders.size() > 1) {
        copies.push_back(&shared);
      } else {
        writer[&shared] = 0;
        load[shared.holders[0].first] += shared.bytes();
      }
    }
  }
  std::ranges::stable_sort(copies, std::greater{}, &Shared::bytes);
  for (const Shared* shared : copies) {
    const auto least = std::ranges::min_element(
        shared->holders, {}, [&](const auto& holder) { return load[holder.first]; });
    writer[shared] = least - shared->holders.begin();
    load[least->first] += shared->bytes();
  }

  for (const auto& [key, parts] : tensors) {
    const auto& [group, name] = key;
    const Outline& first = *parts.regions[0].outline;
    Manifest::Tensor& tensor = plan.manifest.groups[group][name];
    tensor = {first.dtype, first.region.global, {}};
    for (const Shared& shared : parts.regions) {
      if (shared.bytes() == 0) continue;
      const auto [rank, number] = shared.holders[writer.at(&shared)];
      plan.writes[rank].push_back(number);
      const Region& region = shared.outline->region;
      tensor.pieces.push_back({file_name(group, rank, ranks), key_of(name, region), region});
    }
  }
  for (auto& numbers : plan.writes) std::ranges::sort(numbers);
  return plan;
}

}  // namespace capstan::distributed

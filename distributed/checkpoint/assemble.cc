#include "distributed/checkpoint/assemble.h"

#include "core/raise.h"
#include "distributed/checkpoint/plan.h"

namespace capstan::distributed {
namespace {

/// What one rank sends of a tensor.
struct Part {
  int rank;
  size_t number;  // of its pieces
};

}  // namespace

void assemble(const Pieces& held, std::span<const std::string> names, Communicator& ranks,
              const std::function<void(const std::string& name, const Tensor& whole)>& visit) {
  std::vector<std::vector<Outline>> outlined;
  std::map<std::string, std::vector<Part>> parts;  // by rank, then in the order of its pieces
  ranks.together("pieces", [&] { outlines({{"model", held}}); });
  for (const std::string& text :
       ranks.all_gather_strings(to_json(outlines({{"model", held}})), "pieces")) {
    outlined.push_back(parse_outlines(text));
  }
  ranks.together("pieces", [&] {
    const SavePlan plan = plan_save(outlined);
    for (int r = 0; r < ranks.size(); ++r) {
      for (size_t number : plan.writes[r]) parts[outlined[r][number].name].push_back({r, number});
    }
    for (const std::string& name : names) {
      if (!parts.contains(name)) raise<ValueError>("[assemble] no rank holds '{}'", name);
    }
  });
  for (const std::string& name : names) {
    Counts counts(ranks.size());
    std::vector<const Outline*> from;
    for (const Part& part : parts.at(name)) {
      from.push_back(&outlined[part.rank][part.number]);
      counts[part.rank] += from.back()->region.count();
    }
    const TensorOptions options{.dtype = from[0]->dtype};
    const Tensor mine = empty({counts[ranks.rank()]}, options);
    const Tensor all = empty({numel(from[0]->region.global)}, options);
    const auto part_of = [](const Tensor& flat, int64_t begin, int64_t count) {
      return view_of(flat, flat.layout().sliced(0, begin, begin + count));
    };
    int64_t begin = 0;
    for (const Part& part : parts.at(name)) {
      if (part.rank != ranks.rank()) continue;
      const Piece& piece = held[part.number];
      const Tensor place = part_of(mine, begin, piece.region.count());
      copy_overlap(piece, {name, piece.region, place});
      begin += piece.region.count();
    }
    ranks.all_gather(mine, all, counts, name).wait();
    const Tensor result = empty(from[0]->region.global, options);
    begin = 0;
    for (const Outline* outline : from) {
      const int64_t count = outline->region.count();
      copy_overlap({name, outline->region, part_of(all, begin, count)}, whole(name, result));
      begin += count;
    }
    visit(name, result);
  }
}

}  // namespace capstan::distributed

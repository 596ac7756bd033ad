#include "distributed/checkpoint/region.h"

#include <tuple>

#include "core/raise.h"

namespace capstan::distributed {
namespace {

/// Where the boxes of two regions meet; a size below 1 where they do not.
Region intersect(const Region& a, const Region& b) {
  Region both{a.global, a.start, a.shape, 0, 0};
  for (int axis = 0; axis < a.global.rank(); ++axis) {
    both.start[axis] = std::max(a.start[axis], b.start[axis]);
    both.shape[axis] =
        std::min(a.start[axis] + a.shape[axis], b.start[axis] + b.shape[axis]) - both.start[axis];
  }
  return both;
}

bool is_empty(const Shape& shape) {
  return std::ranges::any_of(shape, [](int64_t size) { return size < 1; });
}

/// The number, in the box of `region`, of the element of the tensor at `index`.
int64_t place_in(const Region& region, const Strides& strides, const Shape& index) {
  int64_t place = 0;
  for (int axis = 0; axis < index.rank(); ++axis) {
    place += (index[axis] - region.start[axis]) * strides[axis];
  }
  return place;
}

/// Moves `index` on through `box`, row-major, in its first `axes` axes. False at the end.
bool advance(Shape& index, const Region& box, int axes) {
  for (int axis = axes - 1; axis >= 0; --axis) {
    if (++index[axis] < box.start[axis] + box.shape[axis]) return true;
    index[axis] = box.start[axis];
  }
  return false;
}

auto order(const Region& region) {
  const auto list = [](const Shape& shape) { return std::vector(shape.begin(), shape.end()); };
  return std::tuple(list(region.start), list(region.shape), region.begin, region.end);
}

/// Of two regions that overlap; for their first element that both hold.
std::string twice(const Region& a, const Region& b) {
  return fmt::format("elements are held twice, by {} and {}", to_string(a), to_string(b));
}

/// The first elements that none of `regions` holds.
std::string first_missing(const Shape& global, const std::vector<Region>& regions) {
  const int64_t all = numel(global);
  std::vector<bool> held(all);
  for (const Region& region : regions) {
    for (const Run& run : overlap(region, Region::whole(global))) {
      std::fill_n(held.begin() + run.to, run.count, true);
    }
  }
  const auto begin = std::ranges::find(held, false);
  const auto end = std::find(begin, held.end(), true);
  return fmt::format("elements {} to {} of {} are missing", begin - held.begin(),
                     end - held.begin() - 1, all);
}

}  // namespace

Region Region::whole(const Shape& global) {
  return box(global, Shape::filled(global.rank(), 0), global);
}

Region Region::box(const Shape& global, const Shape& start, const Shape& shape) {
  return {global, start, shape, 0, numel(shape)};
}

Region Region::slice(const Shape& global, int64_t axis, int64_t first, int64_t count) {
  const int cut = normalize_axis("region", axis, global.rank());
  Shape start = Shape::filled(global.rank(), 0), shape = global;
  start[cut] = first;
  shape[cut] = count;
  return box(global, start, shape);
}

std::string to_string(const Region& region) {
  std::string text = "[";
  for (int axis = 0; axis < region.shape.rank(); ++axis) {
    text += fmt::format("{}{}:{}", axis > 0 ? ", " : "", region.start[axis],
                        region.start[axis] + region.shape[axis]);
  }
  text += ']';
  if (!region.is_box()) text += fmt::format(" {}:{}", region.begin, region.end);
  return text;
}

void check(const std::string& name, const Region& region) {
  const auto& [global, start, shape, begin, end] = region;
  bool inside = start.rank() == global.rank() && shape.rank() == global.rank();
  for (int axis = 0; inside && axis < global.rank(); ++axis) {
    inside = start[axis] >= 0 && shape[axis] >= 0 && start[axis] <= global[axis] - shape[axis];
  }
  if (!inside) {
    raise<ShapeError>("[checkpoint] a box of {} must lie in {}, got start {} and shape {}", name,
                      global, start, shape);
  }
  if (begin < 0 || begin > end || end > numel(shape)) {
    raise<ShapeError>("[checkpoint] a range of {} must lie in its box of {} elements, got {} to {}",
                      name, numel(shape), begin, end);
  }
}

std::vector<Run> overlap(const Region& from, const Region& to) {
  if (from.global != to.global) {
    raise<ShapeError>("[checkpoint] regions of {} and {} are of different tensors", from.global,
                      to.global);
  }
  const Region both = intersect(from, to);
  std::vector<Run> runs;
  if (is_empty(both.shape)) return runs;

  // The last axes that neither box cuts lie densely in both, so a row goes over them and one more.
  int row = both.shape.rank();
  int64_t row_count = 1;
  for (bool dense = true; dense && row > 0;) {
    row_count *= both.shape[--row];
    dense = both.shape[row] == from.shape[row] && both.shape[row] == to.shape[row];
  }

  const Strides from_strides = dense_strides(from.shape), to_strides = dense_strides(to.shape);
  Shape index = both.start;
  do {
    const int64_t in_from = place_in(from, from_strides, index);
    const int64_t in_to = place_in(to, to_strides, index);
    const int64_t first = std::max({int64_t{0}, from.begin - in_from, to.begin - in_to});
    const int64_t last = std::min({row_count, from.end - in_from, to.end - in_to});
    if (first >= last) continue;
    const Run run{in_from + first - from.begin, in_to + first - to.begin, last - first};
    if (!runs.empty() && runs.back().from + runs.back().count == run.from &&
        runs.back().to + runs.back().count == run.to) {
      runs.back().count += run.count;
    } else {
      runs.push_back(run);
    }
  } while (advance(index, both, row));
  return runs;
}

std::string cover_fault(const Shape& global, std::vector<Region> regions) {
  std::erase_if(regions, [](const Region& region) { return region.count() == 0; });
  std::ranges::sort(regions, {}, order);
  const auto copies = std::ranges::unique(regions);
  regions.erase(copies.begin(), copies.end());

  // Ranges of one box are now in order, so that only neighbours can overlap. Boxes are few.
  int64_t held = 0;
  std::vector<std::pair<size_t, size_t>> boxes;  // first and last of the regions of each
  for (size_t i = 0; i < regions.size(); ++i) {
    held += regions[i].count();
    const bool same = i > 0 && regions[i].start == regions[i - 1].start &&
                      regions[i].shape == regions[i - 1].shape;
    if (same && regions[i].begin < regions[i - 1].end) return twice(regions[i - 1], regions[i]);
    if (!same) boxes.emplace_back(i, i);
    boxes.back().second = i;
  }
  for (size_t a = 0; a < boxes.size(); ++a) {
    for (size_t b = a + 1; b < boxes.size(); ++b) {
      if (is_empty(intersect(regions[boxes[a].first], regions[boxes[b].first]).shape)) continue;
      for (size_t i = boxes[a].first; i <= boxes[a].second; ++i) {
        for (size_t j = boxes[b].first; j <= boxes[b].second; ++j) {
          if (!overlap(regions[i], regions[j]).empty()) return twice(regions[i], regions[j]);
        }
      }
    }
  }
  return held == numel(global) ? "" : first_missing(global, regions);
}

}  // namespace capstan::distributed

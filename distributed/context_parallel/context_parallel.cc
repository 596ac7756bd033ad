#include "distributed/context_parallel/context_parallel.h"

#include "autograd/indexing.h"
#include "autograd/rearrange.h"
#include "autograd/views.h"
#include "core/raise.h"
#include "distributed/name_patterns.h"

namespace capstan::distributed {
namespace {

constexpr const char* kName = "context_parallel";

/// The modules that a pattern fits. Throws ValueError if there are none.
std::vector<std::pair<std::string, nn::Module*>> find(nn::Module& model,
                                                      const std::string& pattern) {
  std::vector<std::pair<std::string, nn::Module*>> found;
  const NamePatterns patterns({pattern});
  std::string names;
  for (const auto& [name, module] : model.modules()) {
    if (patterns.fit(name)) found.emplace_back(name, module);
    names += name.empty() ? "" : " " + name;
  }
  if (found.empty()) {
    raise<ValueError>("[{}] no module fits '{}'; there are{}", kName, pattern, names);
  }
  return found;
}

/// Rotary positions of a rank's part of a sequence: each run of neighbours turned from its own
/// place.
Tensor rotated(const Tensor& x, double base, SequenceCut cut, const Communicator& ranks) {
  const int64_t rows = x.size(2), run = cut == SequenceCut::zigzag ? rows / 2 : rows;
  const auto places =
      sequence_places(rows * ranks.size(), cut, ranks.rank(), ranks.size()).to_vector<int64_t>();
  std::vector<Tensor> runs;
  for (int64_t first = 0; first < rows; first += run) {
    runs.push_back(
        rotary_embedding(slice(x, 2, first, first + run), {.offset = places[first], .base = base}));
  }
  return cat(runs, 2);
}

}  // namespace

ContextParallel::ContextParallel(nn::Module& model, const ContextOptions& options,
                                 Communicator& ranks)
    : ranks_(ranks),
      cut_(options.cut),
      dropped_(std::make_shared<AxisParts>(
          AxisParts{part_of_sequence(1, options.cut, ranks.rank(), ranks.size())})) {
  ranks.agree("context parallelism",
              fmt::format("attention '{}', start '{}', zigzag {}", options.attention, options.start,
                          options.cut == SequenceCut::zigzag));
  const auto starts = find(model, options.start);
  if (starts.size() != 1) {
    raise<ValueError>("[{}] sequences are cut once, but '{}' and '{}' both fit '{}'", kName,
                      starts[0].first, starts[1].first, options.start);
  }
  for (const auto& [name, module] : find(model, options.attention)) {
    auto* attention = dynamic_cast<nn::MultiheadAttention*>(module);
    if (!attention) {
      raise<ValueError>("[{}] attention is MultiheadAttention, and '{}' is a {}", kName, name,
                        module->type_name());
    }
    attentions_.push_back(attention);
  }
  for (nn::MultiheadAttention* attention : attentions_) {
    attention->attend =
        [cut = cut_, &ranks, rotary = attention->options.rotary, base = attention->options.base](
            const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& rules) {
          if (rules.mask.defined()) raise<ValueError>("[{}] attention takes no mask", kName);
          const auto turned = [&](const Tensor& x) {
            return rotary ? rotated(x, base, cut, ranks) : x;
          };
          return ring_attention(turned(q), turned(k), v, ranks,
                                {.causal = rules.causal,
                                 .cut = cut,
                                 .scale = rules.scale,
                                 .dropout = rules.dropout,
                                 .parts = rules.parts});
        };
  }
  bool started = false;
  for (const auto& [name, module] : model.modules()) {
    started = started || name == starts[0].first;
    auto* dropout = dynamic_cast<nn::Dropout*>(module);
    if (!started || !dropout) continue;
    dropout->parts.push_back(dropped_);
    dropouts_.push_back(dropout);
  }
  start_ = starts[0].second->on_input.add([this](const Tensor& x) { return part(x); });
}

ContextParallel::~ContextParallel() {
  for (nn::MultiheadAttention* attention : attentions_) attention->attend = nullptr;
  for (nn::Dropout* dropout : dropouts_) std::erase(dropout->parts, dropped_);
}

Tensor ContextParallel::part(const Tensor& x) const {
  if (x.rank() < 2) {
    raise<ShapeError>("[{}] takes [batch, n, ...], got {}", kName, x.shape());
  }
  const Tensor places = sequence_places(x.size(1), cut_, ranks_.rank(), ranks_.size());
  if (x.device().kind == Device::Kind::meta) return slice(x, 1, 0, places.numel());
  return index_select(x, 1, places);
}

Tensor ContextParallel::joined(const Tensor& part) const {
  if (part.rank() < 2) {
    raise<ShapeError>("[{}] takes [batch, n, ...], got {}", kName, part.shape());
  }
  const NoGrad off;
  const Tensor rows = contiguous(transpose(part, 0, 1));  // [m, batch, ...]
  Shape shape = rows.shape();
  shape[0] *= ranks_.size();
  const Tensor all = empty(shape, {part.dtype(), part.device()});
  ranks_.all_gather(rows, all, "parts of sequences").wait();
  std::vector<int64_t> row_of(shape[0]);  // by place
  for (int rank = 0, row = 0; rank < ranks_.size(); ++rank) {
    const Tensor places = sequence_places(shape[0], cut_, rank, ranks_.size());
    for (int64_t place : places.to_vector<int64_t>()) row_of[place] = row++;
  }
  return transpose(index_select(all, 0, from_vector(row_of, {shape[0]})), 0, 1);
}

}  // namespace capstan::distributed

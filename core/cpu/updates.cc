// The one kernel beneath all optimizers: applies the rules of core/updates.h, in one pass over each
// parameter's elements.
//
// The elements of all parameters are taken as one row, which parallel_for cuts into blocks; a block
// may hold several small parameters or a part of a large one.
#include "core/updates.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/cpu/cpu_backend.h"
#include "core/cpu/loop.h"

namespace capstan {
namespace {

constexpr int64_t kPiece = 1024;  // elements whose forgotten values stay in the first cache

template <class Rule, class T, class... Kept>
void change(const Rule rule, int64_t count, T* p, const T* g, Kept*... kept) {
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i) rule(p[i], g[i], kept[i]...);
}

/// Elements begin, ..., end - 1 of one parameter.
template <class T, class Rule, size_t... K>
void run(const Update& update, const Rule& rule, int64_t begin, int64_t end,
         std::index_sequence<K...>) {
  T* const p = static_cast<T*>(update.parameter.address());
  const T* const g = static_cast<const T*>(update.grad.address());
  T* const kept[] = {(K < update.kept.size() && update.kept[K].defined()
                          ? static_cast<T*>(update.kept[K].address())
                          : nullptr)...,
                     nullptr};
  T forgotten[sizeof...(K) + 1][kPiece];
  for (int64_t at = begin; at < end; at += kPiece) {
    const int64_t count = std::min(kPiece, end - at);
    [[maybe_unused]] const auto place = [&](size_t k) {
      if (kept[k]) return kept[k] + at;
      std::fill_n(forgotten[k], count, T{0});
      return forgotten[k];
    };
    change(rule, count, p + at, g + at, place(K)...);
  }
}

void run(const Update& update, int64_t begin, int64_t end) {
  std::visit(
      [&]<class Rule>(const Rule& rule) {
        visit_floating(update.parameter.dtype(), "update", [&]<class T>() {
          run<T>(update, rule, begin, end, std::make_index_sequence<Rule::kKept>());
        });
      },
      update.rule);
}

}  // namespace

void CpuBackend::update(std::span<const Update> updates) {
  std::vector<int64_t> ends;  // of each parameter in the row of all
  int64_t total = 0;
  for (const Update& update : updates) {
    ends.push_back(total += update.parameter.numel());
    update.parameter.storage().bump_version();
    for (const Tensor& kept : update.kept) {
      if (kept.defined()) kept.storage().bump_version();
    }
  }
  parallel_for(total, cpu::kGrain, [&](int64_t begin, int64_t end) {
    size_t i = std::upper_bound(ends.begin(), ends.end(), begin) - ends.begin();
    for (; begin < end; ++i) {
      const int64_t start = ends[i] - updates[i].parameter.numel(), stop = std::min(end, ends[i]);
      run(updates[i], begin - start, stop - start);
      begin = stop;
    }
  });
}

}  // namespace capstan

// Implements the part of Communicator in which ranks come to agree: strings, agree(), together().
//
// All of it stands on one step: every rank learns every rank's text. From equal knowledge the same
// rule draws the same conclusion everywhere, so no further message is needed to decide.
#include <algorithm>

#include "core/raise.h"
#include "distributed/comm/communicator.h"
#include "distributed/comm/progress.h"
#include "distributed/comm/ring.h"
#include "distributed/comm/tree.h"

namespace capstan::distributed {
namespace {

// About `width` characters of `text` from where it first differs, with a little of what precedes.
std::string around(const std::string& text, size_t difference) {
  constexpr size_t kBefore = 24, kWidth = 72;
  const size_t start = difference > kBefore ? difference - kBefore : 0;
  std::string part = text.substr(start, kWidth);
  std::replace(part.begin(), part.end(), '\n', ' ');
  return (start > 0 ? "..." : "") + part + (start + kWidth < text.size() ? "..." : "");
}

}  // namespace

std::vector<std::string> Communicator::all_gather_strings(const std::string& mine,
                                                          std::string_view tag) {
  struct State {
    std::vector<int64_t> lengths;
    Parts parts{0};
    std::string joined;
  };
  auto state = std::make_shared<State>();
  start(Call(Kind::all_gather_strings, tag), [state, mine](Channel& channel) {
    auto& [lengths, parts, joined] = *state;
    const int n = channel.size();
    lengths.resize(n);
    lengths[channel.rank()] = static_cast<int64_t>(mine.size());
    ring_all_gather(channel, Dtype::int64, lengths.data(), even_parts(n, n));
    for (int64_t length : lengths) parts.push_back(parts.back() + length);
    joined.resize(parts.back());
    mine.copy(joined.data() + parts[channel.rank()], mine.size());
    ring_all_gather(channel, Dtype::uint8, joined.data(), parts);
  }).wait();
  std::vector<std::string> texts;
  for (int r = 0; r < size(); ++r) {
    texts.push_back(state->joined.substr(state->parts[r], state->lengths[r]));
  }
  return texts;
}

std::string Communicator::broadcast_string(const std::string& text, int root,
                                           std::string_view tag) {
  if (root < 0 || root >= size()) {
    raise<ValueError>("[broadcast_string] rank {} is not among the {} of this communicator", root,
                      size());
  }
  struct State {
    int64_t length;
    std::string text;
  };
  auto state = std::make_shared<State>();
  if (rank() == root) *state = {static_cast<int64_t>(text.size()), text};
  start(Call(Kind::broadcast_string, tag).with_root(root), [state, root](Channel& channel) {
    tree_broadcast(channel, root, &state->length, sizeof state->length);
    state->text.resize(state->length);
    tree_broadcast(channel, root, state->text.data(), state->length);
  }).wait();
  return state->text;
}

void Communicator::agree(std::string_view what, const std::string& text) {
  const std::vector<std::string> texts = all_gather_strings(text, what);
  const auto other =
      std::find_if(texts.begin(), texts.end(), [&](const std::string& t) { return t != texts[0]; });
  if (other == texts.end()) return;
  const size_t difference =
      std::mismatch(texts[0].begin(), texts[0].end(), other->begin(), other->end()).first -
      texts[0].begin();
  const Transport& ranks = progress_->transport();
  raise<SharedError>("[agree] {} must be the same on all ranks: {} has '{}', {} has '{}'", what,
                     ranks.name(0), around(texts[0], difference),
                     ranks.name(static_cast<int>(other - texts.begin())),
                     around(*other, difference));
}

void Communicator::together(std::string_view what, const std::function<void()>& fn) {
  // A verdict is empty, or "!" and the message.
  std::string verdict;
  try {
    fn();
  } catch (const std::exception& error) {
    verdict = std::string("!") + error.what();
  } catch (...) {
    verdict = "!unknown exception";
  }
  // (If this communicator failed inside fn, this throws the text that all ranks have.)
  const std::vector<std::string> verdicts = all_gather_strings(verdict, what);
  const auto first = std::find_if(verdicts.begin(), verdicts.end(),
                                  [](const std::string& v) { return !v.empty(); });
  if (first == verdicts.end()) return;
  const bool everywhere = std::all_of(verdicts.begin(), verdicts.end(),
                                      [&](const std::string& v) { return v == *first; });
  const std::string message = first->substr(1);
  if (everywhere) throw SharedError(message);
  raise<SharedError>(
      "{}: {}", progress_->transport().name(static_cast<int>(first - verdicts.begin())), message);
}

}  // namespace capstan::distributed

// Implements Failure.
#include "distributed/comm/failure.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <thread>
#include <utility>

namespace capstan::distributed {
namespace {

// How long to wait for a rank that is gone as far as some others know: they may be wrong.
constexpr std::chrono::milliseconds kForGone{300};

template <class T>
bool all_present(const std::vector<std::optional<T>>& values) {
  return std::all_of(values.begin(), values.end(), [](const auto& v) { return v.has_value(); });
}

}  // namespace

Failure::Failure(Transport& transport, const Notice& mine, std::chrono::milliseconds grace)
    : transport_(transport), heard_(transport.size()), left_(transport.size()) {
  Notice cut = mine;  // as the others will see it, so that all draw the same text from it
  cut.text.resize(std::min(cut.text.size(), kNoticeText));
  cut.records.resize(std::min(cut.records.size(), kNoticeFolder));
  cut.call.resize(std::min(cut.call.size(), kNoticeCall));
  heard_[cut.rank] = cut;
  transport_.notify(cut);
  const auto start = Clock::now();
  listen(grace, [&] {
    const bool waits_for_gone = Clock::now() < start + kForGone;
    for (int r = 0; r < transport_.size(); ++r) {
      if (!heard_[r] && (waits_for_gone || !is_gone(r))) return false;
    }
    return true;
  });
  const Notice* cause = find_cause();
  text_ = cause ? describe(*cause) : "[communicator] a rank failed and did not say why";
  saves_records_ = cause && !cause->records.empty();
  if (saves_records_) text_ += "; flight records in " + cause->records;
  if (reported_) text_ = *reported_;  // a rank that comes late knows more, but it has been said
}

template <class F>
void Failure::listen(std::chrono::milliseconds grace, const F& complete) {
  const auto deadline = Clock::now() + grace;
  for (;;) {
    for (Notice& notice : transport_.notices()) {
      switch (notice.kind) {
        case Notice::Kind::failed:
          if (!heard_[notice.rank]) hear(std::move(notice));
          break;
        case Notice::Kind::leaving:
          left_[notice.rank] = std::move(notice.text);
          break;
        case Notice::Kind::reported:
          reported_ = std::move(notice.text);
          break;
      }
    }
    if (complete() || Clock::now() > deadline) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void Failure::hear(Notice notice) {
  const int from = notice.rank;
  heard_[from] = std::move(notice);
  for (const auto& other : heard_) {
    if (!other || other->rank == transport_.rank()) continue;
    if (heard_[from]->missing != other->rank && other->missing != from) continue;
    transport_.forward(from, *other);
    transport_.forward(other->rank, *heard_[from]);
  }
}

// As far as this rank or one that it heard knows.
bool Failure::is_gone(int rank) const {
  return transport_.is_lost(rank) || std::any_of(heard_.begin(), heard_.end(), [&](const auto& n) {
           return n && n->gone && n->missing == rank;
         });
}

const Notice* Failure::find_cause() const {
  const Notice* cause = nullptr;
  for (const auto& notice : heard_) {
    if (!notice || !notice->cause) continue;
    if (!cause || (notice->explains && !cause->explains)) cause = &*notice;
  }
  return cause;
}

std::string Failure::describe(const Notice& cause) const {
  if (cause.name_rank) {
    return fmt::format("{}: {}{}", transport_.name(cause.rank), cause.text,
                       cause.call.empty() ? "" : fmt::format(" (after {})", cause.call));
  }
  if (cause.gone) {
    const std::string gone = transport_.name(cause.missing);
    return cause.text + (heard_[cause.missing]
                             ? fmt::format(": the link between {} and {} is cut",
                                           transport_.name(cause.rank), gone)
                             : fmt::format(" without {}, which has ended or is cut off", gone));
  }
  return cause.explains ? cause.text : cause.text + standings(cause);
}

// Where every rank is, as seen from the call of `cause`.
std::string Failure::standings(const Notice& cause) const {
  std::vector<int> silent;
  std::map<std::pair<int64_t, std::string>, std::vector<int>> at;  // by the last call
  for (int r = 0; r < transport_.size(); ++r) {
    if (!heard_[r]) {
      silent.push_back(r);
    } else {
      at[{heard_[r]->sequence, heard_[r]->call}].push_back(r);
    }
  }
  const auto verb = [](const std::vector<int>& ranks, const char* one, const char* many) {
    return ranks.size() == 1 ? one : many;
  };
  std::string text;
  if (!silent.empty()) {
    text += fmt::format("; {} {} not answer", names(silent), verb(silent, "does", "do"));
  }
  for (const auto& [last, ranks] : at) {
    const auto& [sequence, call] = last;
    text += fmt::format("; {} {} ", names(ranks), verb(ranks, "has", "have"));
    if (sequence == 0) {
      text += "come to no call";
    } else if (sequence < cause.sequence) {
      text += "only come to " + call;
    } else if (sequence == cause.sequence) {
      text += fmt::format("come to call {}", sequence);
    } else {
      text += "gone on to " + call;
    }
  }
  return text;
}

// "rank 2 on h3", "ranks 0-3 on h1, 7 on h2"
std::string Failure::names(const std::vector<int>& ranks) const {
  std::string text = ranks.size() > 1 ? "ranks " : "rank ";
  for (size_t i = 0; i < ranks.size();) {
    size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1 &&
           transport_.host(ranks[end]) == transport_.host(ranks[i])) {
      ++end;
    }
    if (i > 0) text += ", ";
    text += std::to_string(ranks[i]);
    if (end > i + 1) text += fmt::format("-{}", ranks[end - 1]);
    text += " on " + transport_.host(ranks[i]);
    i = end;
  }
  return text;
}

bool Failure::leave(const std::string& message, std::chrono::milliseconds grace,
                    const std::function<void(const std::string&)>& report) {
  Notice notice;
  notice.kind = Notice::Kind::leaving;
  notice.rank = transport_.rank();
  notice.text = message.substr(0, kNoticeText);
  left_[notice.rank] = notice.text;
  transport_.notify(notice);
  listen(grace, [&] {  // a rank that did not answer before will not come now
    for (size_t r = 0; r < left_.size(); ++r) {
      if (heard_[r] && !left_[r]) return false;
    }
    return true;
  });

  const bool all_came = all_present(left_);
  const auto same = [&](const auto& left) { return left == notice.text; };
  const auto lowest = std::find_if(left_.begin(), left_.end(), [](const auto& l) { return !!l; });
  if (lowest - left_.begin() == transport_.rank() && !reported_) {
    const std::string text = std::all_of(left_.begin(), left_.end(), same) ? message : text_;
    report(text);
    notice.kind = Notice::Kind::reported;
    notice.text = text.substr(0, kNoticeText);
    transport_.notify(notice);
  } else {
    listen(grace, [&] { return reported_.has_value(); });
  }
  return all_came;
}

}  // namespace capstan::distributed

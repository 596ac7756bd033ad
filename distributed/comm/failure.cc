// Implements Failure.
#include "distributed/comm/failure.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

namespace capstan::distributed {
namespace {

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
  heard_[cut.rank] = cut;
  transport_.notify(cut);
  listen(grace, [&] {
    for (int r = 0; r < transport_.size(); ++r) {
      if (!heard_[r] && !transport_.is_lost(r)) return false;
    }
    return true;
  });
  const Notice* cause = find_cause();
  text_ = cause ? describe(*cause) : "[communicator] a rank failed and did not say why";
  saves_records_ = cause && !cause->records.empty();
  if (saves_records_) text_ += "; flight records in " + cause->records;
}

template <class F>
void Failure::listen(std::chrono::milliseconds grace, const F& complete) {
  const auto deadline = Clock::now() + grace;
  for (;;) {
    for (Notice& notice : transport_.notices()) {
      switch (notice.kind) {
        case Notice::Kind::failed:
          if (!heard_[notice.rank]) heard_[notice.rank] = std::move(notice);
          break;
        case Notice::Kind::leaving:
          left_[notice.rank] = std::move(notice.text);
          break;
        case Notice::Kind::reported:
          reported_ = true;
          break;
      }
    }
    if (complete() || Clock::now() > deadline) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
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
  std::string text = cause.text;
  if (cause.name_rank) return fmt::format("rank {}: {}", cause.rank, text);
  // For a call that did not finish: who is missing from it?
  for (size_t r = 0; r < heard_.size(); ++r) {
    if (!heard_[r]) {
      text +=
          fmt::format("; rank {} on {} does not answer", r, transport_.host(static_cast<int>(r)));
    } else if (heard_[r]->sequence < cause.sequence) {
      text += fmt::format("; rank {} has only come to call {}", r, heard_[r]->sequence);
    }
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
  if (lowest - left_.begin() == transport_.rank()) {
    report(std::all_of(left_.begin(), left_.end(), same) ? message : text_);
    notice.kind = Notice::Kind::reported;
    transport_.notify(notice);
  } else {
    listen(grace, [&] { return reported_; });
  }
  return all_came;
}

}  // namespace capstan::distributed

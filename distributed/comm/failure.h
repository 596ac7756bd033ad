// Defines Failure: how the ranks of a broken communicator come to one account of what happened.
//
// The wires cannot be trusted with a collective any more, so each rank sends one notice to all
// others and reads theirs: what went wrong, if it saw it itself, and how far it had come. A rank
// that was told answers with a notice too, so all ranks end with the same set of notices; from it
// each draws the same text by the same rule: the cause seen by the lowest rank. Time is bounded: a
// rank that does not answer within the grace (stopped, dead) is left out. Where two ranks have lost
// each other, those that hear both pass on what they say.
//
// The text names ranks with their hosts, the call with its sequence and tag, and, for a call that
// did not finish, where every rank stands.
//
// Cost: n-1 notices of 3 KB sent by each rank, once in the life of a communicator.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "distributed/comm/transport.h"

namespace capstan::distributed {

class Failure {
 public:
  /// Sends this rank's notice, waits for the others' and decides. `mine.cause` is false on a rank
  /// that only heard of the failure.
  Failure(Transport& transport, const Notice& mine, std::chrono::milliseconds grace);

  const std::string& text() const { return text_; }
  /// Whether the ranks save their flight records.
  bool saves_records() const { return saves_records_; }

  /// The end of a rank that was ended by an error with `message`: waits, at most the grace, until
  /// all ranks are here; then the lowest of them calls `report` with the text for the user, and the
  /// others wait for that. The text is `message` itself if all ranks were ended by the same, else
  /// text(). Returns whether all ranks came.
  bool leave(const std::string& message, std::chrono::milliseconds grace,
             const std::function<void(const std::string&)>& report);

 private:
  // Reads notices until `complete` or the grace is over.
  template <class F>
  void listen(std::chrono::milliseconds grace, const F& complete);
  void hear(Notice notice);
  bool is_gone(int rank) const;
  const Notice* find_cause() const;
  std::string describe(const Notice& cause) const;
  std::string standings(const Notice& cause) const;
  std::string names(const std::vector<int>& ranks) const;

  Transport& transport_;
  std::vector<std::optional<Notice>> heard_;      // by rank
  std::vector<std::optional<std::string>> left_;  // by rank: what ended it
  std::optional<std::string> reported_;           // what a rank has told the user
  bool saves_records_ = false;
  std::string text_;
};

}  // namespace capstan::distributed

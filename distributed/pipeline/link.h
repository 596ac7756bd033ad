// Defines Link, a queue of messages from one stage to another, and Links, all that one stage needs.
//
// There is a queue for each pair of neighbours, direction and kind, and each is a communicator of
// two ranks, whose calls run in its own thread: so a send never waits for anything but its own
// queue, and what arrives on one is not held up by another. (One communicator for all would run
// its calls in the order of the list; 1F1B stands still then. See simulate.h.)
//
// The receiver knows what will come, and in which order: once it has one message, it posts the
// receive of the next, so that this travels while the stage computes.
#pragma once

#include <deque>
#include <map>
#include <memory>

#include "distributed/comm/communicator.h"
#include "distributed/pipeline/schedule.h"
#include "distributed/pipeline/trace.h"

namespace capstan::distributed::pipeline {

class Link {
 public:
  Link(std::unique_ptr<Communicator> pair) : pair_(std::move(pair)) {}

  /// Starts to send; the elements must not change any more.
  void send(const Tensors& tensors, const std::string& tag);

  /// Says what comes after all that was announced before.
  void expect(std::vector<Crossing> tensors, std::string tag);
  /// Waits for the next message.
  Tensors receive();
  /// Ends all waiting, on both sides, and is of no more use.
  void fail(const std::string& text) { pair_->fail(text, /*save_flight_records=*/false); }

 private:
  struct Expected {
    std::vector<Crossing> tensors;
    std::string tag;
  };
  struct Posted {
    Tensors tensors;
    Work work;
  };
  void post_next();

  std::unique_ptr<Communicator> pair_;
  std::deque<Expected> expected_;
  std::optional<Posted> posted_;
};

/// The two ends of a link, as stages.
struct Ends {
  int from, to;

  auto operator<=>(const Ends&) const = default;
};

/// A communicator for each of `pairs`, between its ends: null on the ranks that are no end of it. A
/// collective; all ranks give the same pairs.
std::vector<std::unique_ptr<Communicator>> connect(Communicator& stages,
                                                   const std::vector<Ends>& pairs);

}  // namespace capstan::distributed::pipeline

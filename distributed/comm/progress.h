// Defines Progress, the engine of a communicator: it numbers calls, runs them in order on its own
// thread, and is the one place where a failure turns into the state "failed".
//
// With one rank there is no thread: the call's body runs at once, in the caller.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "distributed/comm/channel.h"
#include "distributed/comm/failure.h"
#include "distributed/comm/flight_record.h"
#include "distributed/comm/work.h"

namespace capstan::distributed {

struct Work::State {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  std::string error;  // empty: went well
  Clock::time_point started, finished;

  void finish(std::string error);
};

class Progress {
 public:
  using Body = std::function<void(Channel&)>;

  Progress(std::unique_ptr<Transport> transport, const CommOptions& options);
  /// Runs what is queued, unless the communicator failed or an exception is on its way up: then it
  /// fails the communicator, since the peers would wait in vain.
  ~Progress();

  /// Queues a call. Throws SharedError if the communicator has failed.
  Work start(const Call& call, Body body);

  std::string fail(const std::string& message);
  std::string failure() const;
  /// See Failure::leave. Only after a failure.
  bool leave(const std::string& message, const std::function<void(const std::string&)>& report);

  const Transport& transport() const { return *transport_; }
  const CommOptions& options() const { return options_; }
  const FlightRecord& record() const { return record_; }
  Traffic traffic() const;

 private:
  struct Task {
    Call call;
    Body body;
    std::shared_ptr<Work::State> work;
    int64_t number;  // in the flight record
  };

  void run();
  bool run_next();
  void run(Task& task);
  void on_failure(Notice mine);
  Notice notice(std::string text = {}, bool name_rank = false) const;

  const std::unique_ptr<Transport> transport_;
  const CommOptions options_;
  const int exceptions_;  // that were on their way up when this was made
  FlightRecord record_;
  Channel channel_;
  int64_t reached_ = 0;  // the last collective that was started; used by the progress thread only

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<Task> queue_;
  int64_t sequence_ = 0;
  int64_t calls_ = 0;
  bool stopping_ = false;
  std::optional<std::string> fail_message_;  // from fail(), for the progress thread to act on
  std::optional<std::string> failed_;
  std::unique_ptr<Failure> failure_;  // set before failed_, never changed after

  std::thread thread_;
};

}  // namespace capstan::distributed

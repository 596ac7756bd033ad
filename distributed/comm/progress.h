// Defines Progress, the queue of a communicator and who runs it: it numbers calls, runs them in
// order, and is the one place where a failure turns into the state "failed".
//
// Calls run on a thread of their own, while their callers compute. A caller that waits does not
// wait for that thread to wake up: if nobody is at it, it runs the queue itself. So there is one
// runner at a time, but not always the same thread. With one rank there is no thread, and the
// call's body runs at once, in the caller.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "distributed/comm/channel.h"
#include "distributed/comm/failure.h"
#include "distributed/comm/flight_record.h"
#include "distributed/comm/work.h"

namespace capstan::distributed {

struct Work::State {
  std::mutex mutex;
  std::condition_variable changed;
  std::atomic<bool> done{false};
  std::atomic<bool> collecting{false};  // of a group: its calls are not queued yet
  std::weak_ptr<Progress> progress;     // that will run it
  std::string error;                    // empty: went well
  Clock::time_point started, finished;

  void finish(std::string error);
};

/// Saves the flight records of all communicators of this process that have a folder, whatever they
/// are doing, and returns the files. `reason` is given as the failure of those that have not
/// failed. Throws nothing; what cannot be written is missing.
std::vector<std::string> save_flight_records(const std::string& reason);

class Progress : public std::enable_shared_from_this<Progress> {
 public:
  using Body = std::function<void(Channel&)>;

  Progress(std::unique_ptr<Transport> transport, const CommOptions& options);
  ~Progress();
  /// The end: runs what is queued, unless the communicator failed or an exception is on its way up:
  /// then it fails the communicator, since the peers would wait in vain.
  void stop();

  /// Waits until the ranks have met; throws SharedError if they have not.
  void await_meeting();

  /// A call and how it is carried out.
  struct Step {
    Call call;
    Body body;
    bool only_sends = false;
    int64_t number = 0;  // in the flight record
  };
  /// Queues a call, or several that run one after the other as one entry; of those, sends come
  /// first, then other calls between two ranks, then collectives. Throws SharedError if the
  /// communicator has failed.
  Work start(Step step);
  Work start(std::vector<Step> steps, std::shared_ptr<Work::State> work);
  /// Runs the queue until `work` is done, unless another thread is running it.
  void help(const Work::State& work);

  std::string fail(const std::string& message, bool save_records);
  std::string failure() const;
  /// See Failure::leave. Only after a failure.
  bool leave(const std::string& message, const std::function<void(const std::string&)>& report);

  const Transport& transport() const { return *transport_; }
  const CommOptions& options() const { return options_; }
  const FlightRecord& record() const { return record_; }
  RecordOwner owner() const;
  Traffic traffic() const;

 private:
  struct Task {
    std::vector<Step> steps;
    std::shared_ptr<Work::State> work;
    size_t done = 0;  // steps
  };

  void run_thread();
  bool run_first(std::unique_lock<std::mutex>& lock);
  void run(Task& task);
  template <class F>
  bool attempt(const F& f);
  template <class F>
  bool attempt_unlocked(std::unique_lock<std::mutex>& lock, const F& f);
  void on_failure(Notice mine);
  Notice lost_notice() const;
  bool save_record(const std::string& failure) const;

  const std::unique_ptr<Transport> transport_;
  const CommOptions options_;
  const int exceptions_;  // that were on their way up when this was made
  FlightRecord record_;
  Channel channel_;
  Call reached_;  // the last collective that was started; used by the runner only

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<Task> queue_;
  int64_t sequence_ = 0;
  int64_t calls_ = 0;
  bool met_ = false;      // the ranks are connected
  bool running_ = false;  // a thread is at the queue's first call, or connecting
  bool asleep_ = false;   // the thread will look again only when told, or in kIdle
  bool stopping_ = false;
  std::optional<Notice> told_;  // by fail(), for the runner to act on
  std::optional<std::string> failed_;
  std::unique_ptr<Failure> failure_;  // set before failed_, never changed after

  std::thread thread_;
};

}  // namespace capstan::distributed

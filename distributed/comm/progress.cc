// Implements Progress and Work.
#include "distributed/comm/progress.h"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <future>
#include <set>
#include <utility>
#include <vector>

#include "core/raise.h"

namespace capstan::distributed {
namespace {

// How often an idle thread looks for notices of other ranks.
constexpr std::chrono::milliseconds kIdle{50};
// After a call its thread looks once more by itself, so that the caller of small ones need not wake
// it (which takes longer than they do).
constexpr std::chrono::microseconds kNap{500};
constexpr int64_t kSmallBytes = 32 << 10;

// Keeps the memory of a failed call for ever: the network may still be at work on it.
void bury(std::vector<Progress::Step> steps, std::vector<std::byte> scratch) {
  using Grave = std::pair<std::vector<Progress::Step>, std::vector<std::byte>>;
  static std::mutex mutex;
  static auto& graves = *new std::vector<Grave>;
  std::lock_guard lock(mutex);
  graves.emplace_back(std::move(steps), std::move(scratch));
}

// Calls f on a thread of its own and waits for it, at most `limit`: disks may hang, too. Returns
// what f does, or false.
bool call_within(std::chrono::milliseconds limit, std::function<bool()> f) {
  std::packaged_task<bool()> task(std::move(f));
  std::future<bool> result = task.get_future();
  std::thread(std::move(task)).detach();
  return result.wait_for(limit) == std::future_status::ready && result.get();
}

// The communicators of this process.
struct Living {
  std::mutex mutex;
  std::set<const Progress*> all;
};
Living& living() {
  static auto& living = *new Living;
  return living;
}

}  // namespace

Work::Work() : state_(std::make_shared<State>()) {
  state_->started = Clock::now();
  state_->finish({});
}

void Work::wait() const {
  if (state_->collecting) {
    raise<ValueError>("[group] its calls are not queued until it ends: wait afterwards");
  }
  if (!state_->done) {
    if (const auto progress = state_->progress.lock()) progress->help(*state_);
  }
  std::unique_lock lock(state_->mutex);
  state_->changed.wait(lock, [&] { return state_->done.load(); });
  if (!state_->error.empty()) throw SharedError(state_->error);
}

bool Work::done() const { return state_->done; }

Clock::time_point Work::started() const {
  std::lock_guard lock(state_->mutex);
  return state_->started;
}

Clock::time_point Work::finished() const {
  std::lock_guard lock(state_->mutex);
  return state_->finished;
}

void Work::State::finish(std::string why) {
  std::lock_guard lock(mutex);
  error = std::move(why);
  finished = Clock::now();
  if (started == Clock::time_point{}) started = finished;
  done = true;
  changed.notify_all();
}

Progress::Progress(std::unique_ptr<Transport> transport, const CommOptions& options)
    : transport_(std::move(transport)),
      options_(options),
      exceptions_(std::uncaught_exceptions()),
      channel_(*transport_, options) {
  {
    std::lock_guard lock(living().mutex);
    living().all.insert(this);
  }
  if (transport_->size() == 1) return;
  running_ = true;  // so that nobody helps before the ranks are connected
  thread_ = std::thread([this] { run_thread(); });
}

Progress::~Progress() {
  stop();
  std::lock_guard lock(living().mutex);
  living().all.erase(this);
}

void Progress::stop() {
  if (!thread_.joinable()) return;
  if (std::uncaught_exceptions() > exceptions_ && failure().empty()) {
    fail("[communicator] the rank left because of an exception", true);
  }
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Progress::await_meeting() {
  std::unique_lock lock(mutex_);
  if (thread_.joinable()) changed_.wait(lock, [&] { return met_ || failed_; });
  if (failed_) throw SharedError(*failed_);
}

Work Progress::start(Step step) {
  std::vector<Step> steps;
  steps.push_back(std::move(step));
  return start(std::move(steps), std::make_shared<Work::State>());
}

Work Progress::start(std::vector<Step> steps, std::shared_ptr<Work::State> work) {
  const auto turn = [](const Step& step) {
    return step.call.kind != Kind::send_recv ? 2 : step.only_sends ? 0 : 1;
  };
  std::ranges::stable_sort(steps, {}, turn);
  int64_t bytes = 0;
  std::unique_lock lock(mutex_);
  if (failed_) throw SharedError(*failed_);
  for (Step& step : steps) {
    ++calls_;
    if (step.call.kind != Kind::send_recv) step.call.sequence = ++sequence_;
    step.number = record_.add(step.call);
    bytes += step.call.count * item_size(step.call.dtype);
  }
  Task task{std::move(steps), work, 0};
  if (!thread_.joinable()) {  // alone; under the lock, because callers may be several threads
    run(task);
    return Work(work);
  }
  work->progress = weak_from_this();
  queue_.push_back(std::move(task));
  const bool wake = asleep_ || bytes > kSmallBytes;
  lock.unlock();
  if (wake) changed_.notify_all();
  return Work(work);
}

void Progress::help(const Work::State& work) {
  std::unique_lock lock(mutex_);
  while (!work.done && !running_ && !queue_.empty() && !failed_ && !told_) run_first(lock);
}

void Progress::run(Task& task) {
  {
    std::lock_guard lock(task.work->mutex);
    task.work->started = Clock::now();
  }
  for (const Step& step : task.steps) {
    record_.set(step.number, FlightRecord::State::running);
    if (step.call.sequence) reached_ = step.call;
    channel_.begin(step.call, /*more=*/&step != &task.steps.back());
    step.body(channel_);
    record_.set(step.number, FlightRecord::State::done);
    ++task.done;
  }
  if (task.steps.size() > 1) channel_.flush();
  task.steps.clear();  // lets go of the tensors before wait() returns
  task.work->finish({});
}

// Calls f; false if it failed, and then the communicator has.
template <class F>
bool Progress::attempt(const F& f) {
  try {
    f();
    return true;
  } catch (const Interrupted&) {
    std::unique_lock lock(mutex_);
    Notice mine = told_.value_or(lost_notice());
    lock.unlock();
    on_failure(std::move(mine));
  } catch (const LateError& error) {
    on_failure({.cause = true,
                .missing = error.peer,
                .text = error.what(),
                .records = options_.flight_records});
  } catch (const MismatchError& error) {
    on_failure({.cause = true,
                .explains = true,
                .text = error.what(),
                .records = options_.flight_records});
  } catch (const std::exception& error) {
    on_failure({.cause = true,
                .text = fmt::format("{} (in {})", error.what(), to_string(channel_.call())),
                .records = options_.flight_records});
  }
  return false;
}

// The same as the one runner, with the lock open meanwhile.
template <class F>
bool Progress::attempt_unlocked(std::unique_lock<std::mutex>& lock, const F& f) {
  running_ = true;
  lock.unlock();
  const bool well = attempt(f);
  lock.lock();
  running_ = false;
  return well;
}

// Runs the first call of the queue.
bool Progress::run_first(std::unique_lock<std::mutex>& lock) {
  Task& task = queue_.front();  // stays queued until it is done; see on_failure()
  const bool well = attempt_unlocked(lock, [&] { run(task); });
  if (well) queue_.pop_front();
  if (!queue_.empty() || stopping_ || told_) changed_.notify_all();
  return well;
}

void Progress::run_thread() {
  bool well = attempt([&] { channel_.connect(); });
  std::unique_lock lock(mutex_);
  running_ = false;
  met_ = well;
  changed_.notify_all();

  bool active = false;
  while (well && !failed_) {
    asleep_ = !active;
    const auto time = asleep_ ? std::chrono::microseconds(kIdle) : kNap;
    const int64_t before = calls_;
    const bool something = changed_.wait_for(lock, time, [&] {
      return failed_ || (!running_ && (!queue_.empty() || stopping_ || told_));
    });
    asleep_ = false;
    active = something || calls_ > before;
    if (failed_ || running_) continue;
    if (told_ || !something) {
      const bool told = told_.has_value();
      well = attempt_unlocked(lock, [&] {
        if (told || transport_->disturbed()) throw Interrupted{};
      });
    } else if (!queue_.empty()) {
      well = run_first(lock);
    } else {
      return;  // stopping
    }
  }
}

// What this rank knows, if it was disturbed by the end of another one; else nothing.
Notice Progress::lost_notice() const {
  for (int r = 0; r < transport_->size(); ++r) {
    if (!transport_->is_lost(r)) continue;
    const Call& last = channel_.call();
    const std::string call = queue_.empty()
                                 ? "[communicator] the ranks"
                                 : fmt::format("[{}] {}", to_string(last.kind), to_string(last));
    return {.cause = true,
            .missing = r,
            .gone = true,
            .text = call + " cannot go on",
            .records = options_.flight_records};
  }
  return {};
}

RecordOwner Progress::owner() const {
  RecordOwner owner{options_.name, transport_->rank(), {}};
  for (int r = 0; r < transport_->size(); ++r) owner.hosts.push_back(transport_->host(r));
  return owner;
}

// The end of the queue: nothing is sent through this communicator any more but notices.
void Progress::on_failure(Notice mine) {
  transport_->abandon();
  // Before the ranks are told where to look.
  if (!mine.records.empty() && !save_record(mine.text)) mine.records.clear();
  mine.rank = transport_->rank();
  mine.sequence = reached_.sequence;
  if (mine.sequence) mine.call = to_string(reached_);
  auto failure = std::make_unique<Failure>(*transport_, mine, options_.grace);
  if (failure->saves_records()) save_record(failure->text());  // before anybody ends the program
  std::deque<Task> queue;
  {
    std::lock_guard lock(mutex_);
    failure_ = std::move(failure);
    failed_ = failure_->text();
    queue.swap(queue_);
  }
  changed_.notify_all();
  for (const Task& task : queue) {
    for (size_t i = task.done; i < task.steps.size(); ++i) {
      record_.set(task.steps[i].number, FlightRecord::State::failed);
    }
    task.work->finish(failure_->text());
  }
  if (!queue.empty()) bury(std::move(queue.front().steps), channel_.take_scratch());
}

// False if that did not work.
bool Progress::save_record(const std::string& failure) const {
  if (options_.flight_records.empty()) return false;
  const std::string path = FlightRecord::path(options_.flight_records, owner());
  return call_within(options_.grace, [path, json = record_.json(owner(), failure)] {
    try {
      FlightRecord::save(path, json);
      return true;
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
      return false;
    }
  });
}

std::vector<std::string> save_flight_records(const std::string& reason) {
  std::vector<std::pair<std::string, std::string>> files;  // path and text
  {
    std::lock_guard lock(living().mutex);
    for (const Progress* progress : living().all) {
      const std::string& folder = progress->options().flight_records;
      if (folder.empty()) continue;
      const std::string failure = progress->failure();
      files.emplace_back(
          FlightRecord::path(folder, progress->owner()),
          progress->record().json(progress->owner(), failure.empty() ? reason : failure));
    }
  }
  std::vector<std::string> saved;
  for (const auto& [path, text] : files) {
    try {
      FlightRecord::save(path, text);
      saved.push_back(path);
    } catch (const IoError&) {  // there is nobody left to hear of it
    }
  }
  return saved;
}

std::string Progress::fail(const std::string& message, bool save_records) {
  std::unique_lock lock(mutex_);
  if (failed_) return *failed_;
  if (!thread_.joinable()) {
    failed_ = message;
    return message;
  }
  if (!told_) {
    told_ = {.cause = true,
             .name_rank = true,
             .text = message,
             .records = save_records ? options_.flight_records : ""};
  }
  lock.unlock();
  transport_->interrupt();
  changed_.notify_all();
  lock.lock();
  changed_.wait(lock, [&] { return failed_.has_value(); });
  return *failed_;
}

std::string Progress::failure() const {
  std::lock_guard lock(mutex_);
  return failed_.value_or("");
}

bool Progress::leave(const std::string& message,
                     const std::function<void(const std::string&)>& report) {
  Failure* failure = nullptr;
  {
    std::lock_guard lock(mutex_);
    failure = failure_.get();
  }
  if (failure) return failure->leave(message, options_.grace, report);
  report(message);  // alone
  return true;
}

Traffic Progress::traffic() const {
  std::lock_guard lock(mutex_);
  return {channel_.bytes_sent(), channel_.messages(), calls_};
}

}  // namespace capstan::distributed

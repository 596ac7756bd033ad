// Implements Progress and Work.
#include "distributed/comm/progress.h"

#include <sys/prctl.h>

#include <exception>
#include <utility>
#include <vector>

#include "core/raise.h"

namespace capstan::distributed {
namespace {

// How often an idle progress thread looks for notices of other ranks.
constexpr std::chrono::milliseconds kIdle{50};

// Keeps the memory of a failed call for ever: the network, or a rank that has not heard of the
// failure yet, may still be at work on it.
void bury(Progress::Body body, Channel::Remains remains) {
  using Grave = std::pair<Progress::Body, Channel::Remains>;
  static std::mutex mutex;
  static auto& graves = *new std::vector<Grave>;
  std::lock_guard lock(mutex);
  graves.emplace_back(std::move(body), std::move(remains));
}

}  // namespace

Work::Work() : state_(std::make_shared<State>()) {
  state_->started = Clock::now();
  state_->finish({});
}

void Work::wait() const {
  std::unique_lock lock(state_->mutex);
  state_->changed.wait(lock, [&] { return state_->done; });
  if (!state_->error.empty()) throw SharedError(state_->error);
}

bool Work::done() const {
  std::lock_guard lock(state_->mutex);
  return state_->done;
}

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
      channel_(*transport_, options.timeout) {
  if (transport_->size() > 1) thread_ = std::thread([this] { run(); });
}

Progress::~Progress() {
  if (!thread_.joinable()) return;
  if (std::uncaught_exceptions() > exceptions_ && failure().empty()) {
    fail("[communicator] the rank left because of an exception");
  }
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

Work Progress::start(const Call& call, Body body) {
  Task task{call, std::move(body), std::make_shared<Work::State>(), 0};
  const auto work = task.work;
  std::unique_lock lock(mutex_);
  if (failed_) throw SharedError(*failed_);
  ++calls_;
  if (call.kind != Kind::send_recv) task.call.sequence = ++sequence_;
  task.number = record_.add(task.call);
  if (!thread_.joinable()) {  // alone; under the lock, because callers may be several threads
    run(task);
    return Work(work);
  }
  queue_.push_back(std::move(task));
  lock.unlock();
  changed_.notify_all();
  return Work(work);
}

void Progress::run(Task& task) {
  {
    std::lock_guard lock(task.work->mutex);
    task.work->started = Clock::now();
  }
  record_.set(task.number, FlightRecord::State::running);
  if (task.call.sequence) reached_ = task.call.sequence;
  channel_.begin(task.call);
  task.body(channel_);
  task.body = nullptr;  // lets go of the tensors before wait() returns
  record_.set(task.number, FlightRecord::State::done);
  task.work->finish({});
}

void Progress::run() {
  // Sleeps in a transport's wait are some 10 us long; the default slack would add 50.
  prctl(PR_SET_TIMERSLACK, 1000UL, 0, 0, 0);
  try {
    channel_.connect();
    while (run_next()) {
    }
  } catch (const Interrupted&) {
    std::unique_lock lock(mutex_);
    Notice mine = fail_message_ ? notice(*fail_message_, true) : notice();
    lock.unlock();
    on_failure(std::move(mine));
  } catch (const std::exception& error) {
    Notice mine = notice(error.what());
    mine.explains = dynamic_cast<const MismatchError*>(&error) != nullptr;
    on_failure(std::move(mine));
  }
}

// Runs one call, or looks for notices if there has been none for a while. False at the end.
bool Progress::run_next() {
  std::unique_lock lock(mutex_);
  const bool something = changed_.wait_for(
      lock, kIdle, [&] { return !queue_.empty() || stopping_ || fail_message_.has_value(); });
  if (fail_message_) throw Interrupted{};
  if (!something) {
    lock.unlock();
    if (transport_->disturbed()) throw Interrupted{};
    return true;
  }
  if (queue_.empty()) return false;  // stopping
  Task& task = queue_.front();       // stays queued until it is done; see on_failure()
  lock.unlock();
  run(task);
  lock.lock();
  queue_.pop_front();
  return true;
}

Notice Progress::notice(std::string text, bool name_rank) const {
  Notice notice;
  notice.rank = transport_->rank();
  notice.sequence = reached_;
  notice.cause = !text.empty();
  notice.name_rank = name_rank;
  notice.text = std::move(text);
  return notice;
}

// The end of the progress thread: nothing is sent through this communicator any more but notices.
void Progress::on_failure(Notice mine) {
  transport_->abandon();
  auto failure = std::make_unique<Failure>(*transport_, mine, options_.grace);
  std::deque<Task> queue;
  {
    std::lock_guard lock(mutex_);
    failure_ = std::move(failure);
    failed_ = failure_->text();
    queue.swap(queue_);
  }
  changed_.notify_all();
  bury(queue.empty() ? Body() : std::move(queue.front().body), channel_.take_remains());
  for (Task& task : queue) {
    record_.set(task.number, FlightRecord::State::failed);
    task.work->finish(failure_->text());
  }
}

std::string Progress::fail(const std::string& message) {
  std::unique_lock lock(mutex_);
  if (failed_) return *failed_;
  if (!thread_.joinable()) {
    failed_ = message;
    return message;
  }
  if (!fail_message_) fail_message_ = message;
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

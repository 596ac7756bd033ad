// Implements the thread transport and run_ranks().
//
// Ranks of one process can read each other's memory, so nothing is sent: post() puts a letter with
// the address of the bytes into the receiver's inbox, receive() copies from there, and the letter
// tells the sender that its bytes are free again. Small messages are copied into the letter, so
// that nobody waits for them.
//
// Locks: one for each inbox, which also guards the letters that its owner has sent ("sent_" waits
// on its own inbox's condition), and one for the hub's notices. No code holds two at once.
#include "distributed/comm/thread.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <thread>

#include "core/raise.h"
#include "distributed/comm/self.h"
#include "distributed/comm/transport.h"

namespace capstan::distributed {
namespace {

constexpr int64_t kSmall = 1024;  // bytes; such messages are copied

struct Letter {
  Letter(int to, const void* data, int64_t bytes) : to(to), data(data), bytes(bytes) {
    if (bytes > kSmall || bytes == 0) return;
    copy.resize(bytes);
    std::memcpy(copy.data(), data, bytes);
    this->data = copy.data();
  }
  bool is_copy() const { return bytes <= kSmall; }

  int to;
  const void* data;
  int64_t bytes;
  std::vector<std::byte> copy;
  bool read = false;  // guarded by the sender's inbox
};
using LetterRef = std::shared_ptr<Letter>;

struct Inbox {
  explicit Inbox(int ranks) : from(ranks) {}

  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::deque<LetterRef>> from;  // by sender
};

// What the ranks of one communicator share.
struct Hub {
  explicit Hub(int ranks) : interrupted(ranks) {
    for (int r = 0; r < ranks; ++r) inboxes.push_back(std::make_unique<Inbox>(ranks));
  }

  std::vector<std::unique_ptr<Inbox>> inboxes;

  std::mutex mutex;  // guards notices and parts
  std::vector<Notice> notices;
  std::atomic<size_t> notice_count{0};
  std::vector<std::atomic<bool>> interrupted;  // by rank
  struct Part {
    std::shared_ptr<Hub> hub;
    int missing;  // ranks that have not come for it yet
  };
  std::map<std::pair<int64_t, int>, Part> parts;  // by number of the split and color
};

class ThreadTransport : public Transport {
 public:
  ThreadTransport(std::shared_ptr<Hub> hub, int rank)
      : hub_(std::move(hub)), rank_(rank), inbox_(*hub_->inboxes[rank]) {}

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(hub_->inboxes.size()); }
  const std::string& host(int) const override { return host_; }
  int local_rank() const override { return rank_; }

  void post(int peer, const void* data, int64_t bytes) override {
    auto letter = std::make_shared<Letter>(peer, data, bytes);
    if (!letter->is_copy()) sent_.push_back(letter);
    Inbox& inbox = *hub_->inboxes[peer];
    {
      std::lock_guard lock(inbox.mutex);
      inbox.from[rank_].push_back(std::move(letter));
    }
    inbox.changed.notify_all();
  }

  bool receive(int peer, void* data, int64_t bytes, Clock::time_point deadline) override {
    auto& letters = inbox_.from[peer];
    LetterRef letter;
    {
      std::unique_lock lock(inbox_.mutex);
      if (!wait(lock, deadline, [&] { return !letters.empty(); })) return false;
      letter = std::move(letters.front());
      letters.pop_front();
    }
    if (letter->bytes == bytes && bytes > 0) std::memcpy(data, letter->data, bytes);
    if (!letter->is_copy()) {
      Inbox& sender = *hub_->inboxes[peer];
      {
        std::lock_guard lock(sender.mutex);
        letter->read = true;
      }
      sender.changed.notify_all();
    }
    check_size(peer, letter->bytes, bytes);
    return true;
  }

  int flush(Clock::time_point deadline) override {
    std::unique_lock lock(inbox_.mutex);
    while (!sent_.empty()) {
      Letter& letter = *sent_.front();
      if (!wait(lock, deadline, [&] { return letter.read; })) return letter.to;
      sent_.pop_front();
    }
    return -1;
  }

  void abandon() override {
    for (const LetterRef& letter : sent_) {
      // Taken back before it was read; otherwise its reader is copying now and soon done.
      Inbox& inbox = *hub_->inboxes[letter->to];
      bool taken_back;
      {
        std::lock_guard lock(inbox.mutex);
        taken_back = std::erase(inbox.from[rank_], letter) > 0;
      }
      if (taken_back) continue;
      std::unique_lock lock(inbox_.mutex);
      inbox_.changed.wait(lock, [&] { return letter->read; });
    }
    sent_.clear();
  }

  void notify(const Notice& notice) override {
    {
      std::lock_guard lock(hub_->mutex);
      hub_->notices.push_back(notice);
      hub_->notice_count = hub_->notices.size();
    }
    for (auto& inbox : hub_->inboxes) wake(*inbox);
  }

  std::vector<Notice> notices() override {
    std::lock_guard lock(hub_->mutex);
    const std::vector<Notice> fresh(hub_->notices.begin() + notices_read_, hub_->notices.end());
    notices_read_ = hub_->notices.size();
    return fresh;
  }

  bool disturbed() override {
    return hub_->notice_count > notices_read_ || hub_->interrupted[rank_];
  }

  void interrupt() override {
    hub_->interrupted[rank_] = true;
    wake(inbox_);
  }

  std::unique_ptr<Transport> split(const std::vector<int>& colors, const std::vector<int>& keys,
                                   int64_t number) override {
    const int color = colors[rank_];
    if (color < 0) return nullptr;
    const std::vector<int> members = members_of(color, colors, keys);
    const int count = static_cast<int>(members.size());
    const auto place = std::find(members.begin(), members.end(), rank_) - members.begin();

    std::lock_guard lock(hub_->mutex);
    Hub::Part& part = hub_->parts[{number, color}];
    if (!part.hub) part = {std::make_shared<Hub>(count), count};
    auto hub = part.hub;
    if (--part.missing == 0) hub_->parts.erase({number, color});
    return std::make_unique<ThreadTransport>(std::move(hub), static_cast<int>(place));
  }

 private:
  // Waits until `ready`, the deadline (false), or a disturbance (throws).
  template <class F>
  bool wait(std::unique_lock<std::mutex>& lock, Clock::time_point deadline, const F& ready) {
    inbox_.changed.wait_until(lock, deadline, [&] { return ready() || disturbed(); });
    if (!ready() && disturbed() && !patience_.over()) {
      inbox_.changed.wait_until(lock, patience_.end(), ready);
    }
    if (!ready() && disturbed()) throw Interrupted{};
    return ready();
  }

  // Under the lock, so that the owner is not between looking and falling asleep.
  static void wake(Inbox& inbox) {
    { std::lock_guard lock(inbox.mutex); }
    inbox.changed.notify_all();
  }

  const std::shared_ptr<Hub> hub_;
  const int rank_;
  const std::string host_ = host_name();
  Inbox& inbox_;
  std::deque<LetterRef> sent_;  // not copies; oldest first
  size_t notices_read_ = 0;
};

}  // namespace

void run_ranks(int ranks, const std::function<void(Communicator&)>& fn, CommOptions options) {
  if (ranks < 1) raise<ValueError>("[run_ranks] at least one rank, got {}", ranks);
  const auto hub = std::make_shared<Hub>(ranks);
  // Made before and destroyed after all threads, so that a rank that returns early still answers.
  std::vector<std::unique_ptr<Communicator>> communicators;
  for (int r = 0; r < ranks; ++r) {
    communicators.push_back(
        std::make_unique<Communicator>(std::make_unique<ThreadTransport>(hub, r), options));
  }

  std::mutex mutex;
  std::exception_ptr first;
  bool first_is_shared = false;
  // The first exception wins, but one that a rank threw by itself beats what others heard of it.
  const auto keep = [&](bool shared) {
    std::lock_guard lock(mutex);
    if (first && !(first_is_shared && !shared)) return;
    first = std::current_exception();
    first_is_shared = shared;
  };
  std::vector<std::thread> threads;
  for (auto& communicator : communicators) {
    threads.emplace_back([&] {
      try {
        fn(*communicator);
      } catch (const SharedError& error) {
        keep(true);
        communicator->fail(error.what());
      } catch (const std::exception& error) {
        keep(false);
        communicator->fail(error.what());
      } catch (...) {
        keep(false);
        communicator->fail("unknown exception");
      }
    });
  }
  for (auto& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
}

}  // namespace capstan::distributed

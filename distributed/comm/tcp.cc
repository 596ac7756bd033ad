// Implements the TCP transport. Between each two ranks there are two connections: one for messages,
// and one for notices, which must come past all messages.
//
// A message is its length (8 bytes) and its bytes. post() hands the kernel what it takes at once;
// what is left goes out whenever this rank waits for something. Nothing is read ahead: bytes that
// nobody has asked for yet stay with the kernel, and hold up their sender.
//
// A rank that ends well says goodbye on the second connection. If that is closed without a word,
// the rank's process has ended: it is lost, and whoever notices it fails.
#include "distributed/comm/tcp.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <deque>
#include <numeric>
#include <utility>
#include <vector>

#include "core/raise.h"
#include "distributed/comm/rendezvous.h"
#include "distributed/comm/transport.h"

namespace capstan::distributed {
namespace {

// A message on its way out.
struct Outgoing {
  int64_t length;
  const void* data;
  int64_t done = 0;  // bytes that have left, those of the length included
};

// What travels on the second connection.
struct Word {
  enum class Kind : uint8_t { notice, goodbye };
  Kind kind = Kind::goodbye;
  WireNotice notice{};
};

// The connections to another rank.
struct Link {
  enum : int { kMessages, kNotices };
  Socket messages, notices;
  std::deque<Outgoing> outgoing;
  std::array<std::byte, sizeof(Word)> word;  // the one that is coming in
  size_t word_bytes = 0;                     // of it that are here
  bool ended = false;                        // nothing more will come
  bool said_why = false;                     // and that is well: it failed or said goodbye before
  bool closed = false;                       // no more messages will come
};

// A number for a part of a split that no other communicator of the job has.
uint64_t number_of_part(uint64_t parent, int64_t split, int color) {
  uint64_t number = parent;  // mixed as in splitmix64
  for (const auto part : {static_cast<uint64_t>(split), static_cast<uint64_t>(color)}) {
    number = (number ^ part) + 0x9e3779b97f4a7c15;
    number = (number ^ number >> 30) * 0xbf58476d1ce4e5b9;
    number = (number ^ number >> 27) * 0x94d049bb133111eb;
  }
  return number;
}

class TcpTransport : public Transport {
 public:
  // Of `members`, ranks of the job; this rank is the place-th of them. Throws Interrupted when
  // stop() while the ranks connect.
  TcpTransport(std::shared_ptr<Rendezvous> rendezvous, uint64_t number, std::vector<int> members,
               int place, Clock::time_point deadline, std::chrono::milliseconds timeout,
               const std::function<bool()>& stop)
      : rendezvous_(std::move(rendezvous)),
        number_(number),
        members_(std::move(members)),
        rank_(place),
        timeout_(timeout),
        links_(members_.size()),
        wake_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
    for (int r = 0; r < rank_; ++r) local_rank_ += host(r) == host(rank_);
    for (int connection : {Link::kMessages, Link::kNotices}) {
      for (int peer = 0; peer < size(); ++peer) {
        if (peer == rank_) continue;
        const Rendezvous::Name key{number_, std::max(rank_, peer), connection};
        Socket socket;
        if (peer < rank_) socket = rendezvous_->call(members_[peer], key, deadline);
        if (peer > rank_) socket = rendezvous_->await(key, deadline, stop);
        if (!socket && stop()) throw Interrupted{};
        if (!socket) {
          raise<CommError>("[tcp] {} and {} did not connect in time", name(rank_), name(peer));
        }
        (connection == Link::kMessages ? links_[peer].messages : links_[peer].notices) =
            std::move(socket);
      }
    }
  }

  ~TcpTransport() override {
    if (abandoned_) return;
    const Word goodbye;
    for (Link& link : links_) {
      if (!link.notices) continue;
      say(link, goodbye);
      look_at(link);  // what is left unread would make the kernel take back what was sent
    }
  }

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(members_.size()); }
  const std::string& host(int rank) const override { return rendezvous_->host(members_[rank]); }
  int local_rank() const override { return local_rank_; }

  void post(int peer, const void* data, int64_t bytes) override {
    links_[peer].outgoing.push_back({bytes, data});
    push(links_[peer]);
  }

  bool receive(int peer, void* data, int64_t bytes, Clock::time_point deadline) override {
    int64_t length = 0;
    if (!read(peer, &length, sizeof length, deadline)) return false;
    check_size(peer, length, bytes);
    return read(peer, data, bytes, deadline);
  }

  int flush(Clock::time_point deadline) override {
    for (int peer = 0; peer < size(); ++peer) {
      while (!links_[peer].outgoing.empty()) {
        push_all();
        check_that_is_here(peer);
        if (!links_[peer].outgoing.empty() && !wait_for_something(-1, deadline)) return peer;
      }
    }
    return -1;
  }

  void abandon() override {
    abandoned_ = true;
    for (Link& link : links_) link.outgoing.clear();
  }

  void notify(const Notice& notice) override {
    const Word word{Word::Kind::notice, WireNotice(notice)};
    for (Link& link : links_) {
      if (link.notices) say(link, word);
    }
  }

  void forward(int peer, const Notice& notice) override {
    if (links_[peer].notices) say(links_[peer], {Word::Kind::notice, WireNotice(notice)});
  }

  std::vector<Notice> notices() override {
    look();
    return std::exchange(arrived_, {});
  }

  bool disturbed() override {
    if (Clock::now() >= next_look_) look();
    return interrupted_ || lost_ || !arrived_.empty();
  }

  bool is_lost(int rank) const override { return links_[rank].ended && !links_[rank].said_why; }

  void interrupt() override {
    interrupted_ = true;
    const uint64_t one = 1;
    static_cast<void>(!::write(wake_.file(), &one, sizeof one));
  }

  std::unique_ptr<Transport> split(const std::vector<int>& colors, const std::vector<int>& keys,
                                   int64_t number) override {
    const int color = colors[rank_];
    if (color < 0) return nullptr;
    std::vector<int> members = members_of(color, colors, keys);
    const auto place = std::find(members.begin(), members.end(), rank_) - members.begin();
    for (int& member : members) member = members_[member];
    return std::make_unique<TcpTransport>(rendezvous_, number_of_part(number_, number, color),
                                          std::move(members), static_cast<int>(place),
                                          Clock::now() + timeout_, timeout_,
                                          [this] { return disturbed() && patience_.over(); });
  }

 private:
  // Hands the kernel as much as it takes.
  static void push(Link& link) {
    while (!link.outgoing.empty() && !link.closed) {
      Outgoing& out = link.outgoing.front();
      constexpr int64_t kHead = sizeof out.length;
      const int64_t head = std::min(out.done, kHead), body = std::max<int64_t>(0, out.done - kHead);
      iovec parts[] = {
          {reinterpret_cast<std::byte*>(&out.length) + head, static_cast<size_t>(kHead - head)},
          {static_cast<std::byte*>(const_cast<void*>(out.data)) + body,
           static_cast<size_t>(out.length - body)}};
      msghdr message = {};
      message.msg_iov = parts;
      message.msg_iovlen = 2;
      const ssize_t sent = ::sendmsg(link.messages.file(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent < 0) {
        link.closed = errno != EAGAIN && errno != EINTR;  // its notices will say why
        return;
      }
      out.done += sent;
      if (out.done < kHead + out.length) return;
      link.outgoing.pop_front();
    }
  }
  void push_all() {
    for (Link& link : links_) push(link);
  }

  bool read(int peer, void* data, int64_t bytes, Clock::time_point deadline) {
    Link& link = links_[peer];
    auto* to = static_cast<std::byte*>(data);
    for (int64_t done = 0, looks = 0; done < bytes; ++looks) {
      const ssize_t came =
          link.closed ? -1 : ::recv(link.messages.file(), to + done, bytes - done, MSG_DONTWAIT);
      if (came > 0) {
        done += came;
        looks = 0;
        continue;
      }
      if (came == 0 || (!link.closed && errno != EAGAIN && errno != EINTR)) link.closed = true;
      push_all();
      check_that_is_here(peer);
      if (looks < kLooks && Clock::now() < deadline && !disturbed()) continue;
      if (!wait_for_something(link.closed ? -1 : link.messages.file(), deadline)) return false;
    }
    return true;
  }

  // Throws if a rank said goodbye, and is still waited for.
  void check_that_is_here(int peer) {
    const Link& link = links_[peer];
    if (link.closed && link.ended && link.said_why && !disturbed()) {
      raise<CommError>("[communicator] {} has left", name(peer));
    }
  }

  // Sleeps until a file can be read, something can be sent, a notice has come or interrupt() was
  // called; or for a while. False when the deadline has passed. Throws Interrupted.
  bool wait_for_something(int reading, Clock::time_point deadline) {
    if (disturbed() && patience_.over()) throw Interrupted{};
    if (Clock::now() >= deadline) return false;
    const bool patient = disturbed();  // nothing of what disturbs is worth waking up for
    std::vector<pollfd> files;
    if (reading >= 0) files.push_back({reading, POLLIN, 0});
    if (!patient) files.push_back({wake_.file(), POLLIN, 0});
    for (const Link& link : links_) {
      if (!link.notices) continue;
      if (!patient && !link.ended) files.push_back({link.notices.file(), POLLIN, 0});
      if (!link.outgoing.empty() && !link.closed) {
        files.push_back({link.messages.file(), POLLOUT, 0});
      }
    }
    constexpr int kWhile = 50;  // ms
    ::poll(files.data(), files.size(), poll_milliseconds(deadline, patient ? 5 : kWhile));
    next_look_ = {};
    return true;
  }

  // Words are few, and a fresh connection's buffer takes all that there can be.
  static void say(const Link& link, const Word& word) {
    static_cast<void>(::send(link.notices.file(), &word, sizeof word, MSG_NOSIGNAL | MSG_DONTWAIT));
  }

  // Looks at the second connections of all ranks.
  void look() {
    next_look_ = Clock::now() + kBetweenLooks;
    for (Link& link : links_) {
      if (link.notices) look_at(link);
    }
  }
  void look_at(Link& link) {
    while (!link.ended) {
      const ssize_t came = ::recv(link.notices.file(), link.word.data() + link.word_bytes,
                                  link.word.size() - link.word_bytes, MSG_DONTWAIT);
      if (came < 0 && (errno == EAGAIN || errno == EINTR)) return;
      if (came <= 0) {
        link.ended = true;
        lost_ = lost_ || !link.said_why;
        return;
      }
      link.word_bytes += came;
      if (link.word_bytes < link.word.size()) continue;
      link.word_bytes = 0;
      Word word;
      std::memcpy(&word, link.word.data(), sizeof word);
      link.said_why = true;
      if (word.kind == Word::Kind::notice) arrived_.push_back(word.notice.notice());
    }
  }

  static constexpr int kLooks = 50;  // before a wait sleeps
  static constexpr std::chrono::microseconds kBetweenLooks{200};

  const std::shared_ptr<Rendezvous> rendezvous_;
  const uint64_t number_;           // of this communicator
  const std::vector<int> members_;  // ranks of the job, by rank here
  const int rank_;
  int local_rank_ = 0;
  const std::chrono::milliseconds timeout_;
  std::vector<Link> links_;  // by rank; none to this one
  const Socket wake_;        // not a socket, but closed like one
  Clock::time_point next_look_{};
  std::vector<Notice> arrived_;
  bool lost_ = false, abandoned_ = false;
  std::atomic<bool> interrupted_{false};
};

}  // namespace

std::unique_ptr<Communicator> make_tcp(const TcpJob& job, CommOptions options) {
  if (job.size < 1 || job.rank < 0 || job.rank >= job.size) {
    raise<ValueError>("[tcp] there is no rank {} of {}", job.rank, job.size);
  }
  if (job.port < 1 || job.port > 65535) {
    raise<ValueError>("[tcp] a port is in [1, 65535], got {}", job.port);
  }
  auto rendezvous = std::make_shared<Rendezvous>(job);
  std::vector<int> all(job.size);
  std::iota(all.begin(), all.end(), 0);
  const auto deadline = Clock::now() + job.patience;  // all ranks are here now
  std::unique_ptr<TcpTransport> transport;
  std::string error;
  try {
    transport = std::make_unique<TcpTransport>(rendezvous, /*number=*/0, std::move(all), job.rank,
                                               deadline, options.timeout, [] { return false; });
  } catch (const CommError& failure) {
    error = failure.what();
  }
  rendezvous->conclude(error, deadline);
  return std::make_unique<Communicator>(std::move(transport), options);
}

}  // namespace capstan::distributed

// Implements the MPI transport: messages are MPI_Isend and MPI_Irecv on a communicator of our own,
// notices go over a second one, where a receive from any rank is always posted. The parts of a
// split share the two, and tell their messages apart by a tag: MPI's own way to part waits for all
// ranks without a limit, and a rank stopped there could not be named.
//
// Waiting. MPI makes progress only inside MPI calls, and its own waits spin, which takes a core
// from computing. Ours test, and pause between tests (pause.h). Open MPI must not call
// sched_yield() inside its tests, as it does if mpi_yield_when_idle is set: 250 KB between two
// ranks that compute then took 28 to 60 ms instead of 0.05 to 0.5.
//
// A rank whose process ends is noticed by those of its machine (process_watch.h). A process that
// ends well finalises MPI, and so does not end before all communicators have.
//
// A program that ends after a failure must not finalise MPI: that waits for all ranks.
#include "distributed/comm/mpi.h"

#include <mpi.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <list>
#include <memory>
#include <mutex>
#include <numeric>
#include <thread>
#include <utility>

#include "core/raise.h"
#include "distributed/comm/combine.h"
#include "distributed/comm/process_watch.h"
#include "distributed/comm/transport.h"
#include "distributed/comm/watchdog.h"

namespace capstan::distributed {
namespace {

// Throws unless an MPI call went well.
void check(const char* operation, int code) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  raise<CommError>("[{}] {}", operation, text);
}

// Every rank's text, cut to 255 bytes.
std::vector<std::string> all_gather_texts(std::string mine, MPI_Comm comm) {
  constexpr int kBytes = 256;
  int size = 0;
  MPI_Comm_size(comm, &size);
  mine.resize(kBytes - 1);
  std::string all(static_cast<size_t>(size) * kBytes, '\0');
  check("MPI_Allgather",
        MPI_Allgather(mine.c_str(), kBytes, MPI_BYTE, all.data(), kBytes, MPI_BYTE, comm));
  std::vector<std::string> texts;
  for (int r = 0; r < size; ++r) texts.emplace_back(&all[static_cast<size_t>(r) * kBytes]);
  return texts;
}

// MPI's life in this process.
class Session {
 public:
  static Session& get() {
    static Session session;
    return session;
  }

  std::atomic<int> transports{0};                               // alive now
  std::atomic<bool> failed{false};                              // some transport was abandoned
  std::chrono::milliseconds timeout{std::chrono::minutes(10)};  // of the last make_mpi()

  // The processes of MPI_COMM_WORLD; the first call is a collective.
  ProcessWatch& processes() {
    std::call_once(
        met_, [&] { processes_.emplace(all_gather_texts(ProcessWatch::here(), MPI_COMM_WORLD)); });
    return *processes_;
  }

 private:
  Session() {
    int initialised = 0, level = 0;
    MPI_Initialized(&initialised);
    if (initialised) {
      MPI_Query_thread(&level);
    } else {
      setenv("OMPI_MCA_mpi_yield_when_idle", "0", /*overwrite=*/0);
      check("MPI_Init_thread", MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level));
    }
    ours_ = !initialised;
    if (level < MPI_THREAD_MULTIPLE) {
      raise<CommError>(
          "[make_mpi] the MPI library gives thread level {} but Capstan needs MPI_THREAD_MULTIPLE "
          "({}): use a build of it with thread support",
          level, static_cast<int>(MPI_THREAD_MULTIPLE));
    }
  }

  ~Session() {
    int finalised = 0;
    MPI_Finalized(&finalised);
    // With a transport still alive, somebody called exit() in the middle: do not wait for the
    // others.
    if (!ours_ || finalised || failed || transports > 0) return;
    const Watchdog limit("[MPI_Finalize] MPI did not end", timeout, "a rank is stopped or gone");
    MPI_Finalize();
  }

  bool ours_ = false;
  std::once_flag met_;
  std::optional<ProcessWatch> processes_;
};

// MPI's own all-reduce combines by our arithmetic, so that every dtype and operation will do. It
// tells the function neither of the two, so there is one for each pair.
template <Reduce op, class T>
void combine_for_mpi(void* from, void* into, int* count, MPI_Datatype*) {
  combine(op, dtype_of<T>(), from, into, into, *count);
}
template <Reduce op>
MPI_User_function* operation_on(Dtype dtype) {
  return visit_dtype(dtype,
                     []<class T>() -> MPI_User_function* { return &combine_for_mpi<op, T>; });
}
MPI_User_function* operation_of(Reduce op, Dtype dtype) {
  switch (op) {
    case Reduce::sum:
    case Reduce::mean:
      return operation_on<Reduce::sum>(dtype);
    case Reduce::min:
      return operation_on<Reduce::min>(dtype);
    case Reduce::max:
      return operation_on<Reduce::max>(dtype);
    case Reduce::product:
      return operation_on<Reduce::product>(dtype);
    case Reduce::bit_and:
      return operation_on<Reduce::bit_and>(dtype);
    case Reduce::bit_or:
      break;
  }
  return operation_on<Reduce::bit_or>(dtype);
}

// What the transports of a job share: MPI's communicators, and what is known of their ranks.
struct Wires {
  Wires() {
    check("MPI_Comm_dup", MPI_Comm_dup(MPI_COMM_WORLD, &messages));
    check("MPI_Comm_set_errhandler", MPI_Comm_set_errhandler(messages, MPI_ERRORS_RETURN));
    check("MPI_Comm_dup", MPI_Comm_dup(messages, &notices));
    MPI_Comm_rank(messages, &rank);

    MPI_Comm machine;
    check("MPI_Comm_split_type",
          MPI_Comm_split_type(messages, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &machine));
    int first = rank;
    check("MPI_Bcast", MPI_Bcast(&first, 1, MPI_INT, 0, machine));
    MPI_Comm_free(&machine);
    int size = 0;
    MPI_Comm_size(messages, &size);
    machines.resize(size);
    check("MPI_Allgather",
          MPI_Allgather(&first, 1, MPI_INT, machines.data(), 1, MPI_INT, messages));

    char name[MPI_MAX_PROCESSOR_NAME] = {};
    int length = 0;
    MPI_Get_processor_name(name, &length);
    hosts = all_gather_texts(name, messages);

    int* most = nullptr;
    int known = 0;
    MPI_Comm_get_attr(messages, MPI_TAG_UB, &most, &known);
    if (known) last_tag = *most;
  }
  ~Wires() {
    if (Session::get().failed) return;
    MPI_Comm_free(&notices);
    MPI_Comm_free(&messages);
  }
  Wires(const Wires&) = delete;
  Wires& operator=(const Wires&) = delete;

  // A tag that no other rank gives out, nor this one again.
  int64_t fresh_tag() { return rank + 1 + std::ssize(hosts) * tags_given_++; }

  MPI_Comm messages, notices;
  int rank = 0;
  std::vector<std::string> hosts;
  std::vector<int> machines;  // of each rank: the lowest rank on its machine
  int64_t last_tag = 32767;

 private:
  std::atomic<int64_t> tags_given_{0};
};

class MpiTransport : public Transport {
 public:
  // Of `members`, ranks of the job; this rank is one of them. No other transport of these ranks has
  // that tag.
  MpiTransport(std::shared_ptr<Wires> wires, std::vector<int> members, int tag,
               std::chrono::milliseconds timeout)
      : wires_(std::move(wires)), members_(std::move(members)), tag_(tag), timeout_(timeout) {
    rank_ = static_cast<int>(std::ranges::find(members_, wires_->rank) - members_.begin());
    for (int r = 0; r < rank_; ++r) local_rank_ += machine(r) == machine(rank_);
    await_notice();
    ++Session::get().transports;
  }

  ~MpiTransport() override {
    --Session::get().transports;
    if (notice_request_ != MPI_REQUEST_NULL) {  // it would be written into after we are gone
      MPI_Cancel(&notice_request_);
      MPI_Wait(&notice_request_, MPI_STATUS_IGNORE);
    }
    if (Session::get().failed || library_ == MPI_COMM_NULL) return;
    MPI_Comm_free(&library_);
  }

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(members_.size()); }
  const std::string& host(int rank) const override { return wires_->hosts[members_[rank]]; }
  int local_rank() const override { return local_rank_; }

  void post(int peer, const void* data, int64_t bytes) override {
    MPI_Request request;
    check("MPI_Isend", MPI_Isend(data, static_cast<int>(bytes), MPI_BYTE, members_[peer], tag_,
                                 wires_->messages, &request));
    requests_.push_back(request);
    peers_.push_back(peer);
  }

  bool receive(int peer, void* data, int64_t bytes, Clock::time_point deadline) override {
    check("MPI_Irecv", MPI_Irecv(data, static_cast<int>(bytes), MPI_BYTE, members_[peer], tag_,
                                 wires_->messages, &receive_));
    MPI_Status status;
    if (!wait_until(deadline, [&] { return is_done(receive_, &status); })) return false;
    int count = 0;
    MPI_Get_count(&status, MPI_BYTE, &count);
    check_size(peer, count, bytes);
    return true;
  }

  bool has_all_reduce() const override { return true; }
  bool all_reduce(Reduce op, Dtype dtype, void* data, int64_t count,
                  Clock::time_point deadline) override {
    constexpr int64_t kMost = 1 << 28;  // elements; MPI counts in int
    MPI_Datatype element;
    check("MPI_Type_contiguous",
          MPI_Type_contiguous(static_cast<int>(item_size(dtype)), MPI_BYTE, &element));
    check("MPI_Type_commit", MPI_Type_commit(&element));
    MPI_Op operation;
    check("MPI_Op_create", MPI_Op_create(operation_of(op, dtype), /*commute=*/1, &operation));
    auto* at = static_cast<std::byte*>(data);
    for (bool more = true; more; more = count > 0) {
      const int piece = static_cast<int>(std::min(count, kMost));
      check("MPI_Iallreduce",
            MPI_Iallreduce(MPI_IN_PLACE, at, piece, element, operation, library(), &all_reduce_));
      if (!wait_until(deadline, [&] { return is_done(all_reduce_, MPI_STATUS_IGNORE); })) {
        return false;
      }
      at += piece * item_size(dtype);
      count -= piece;
    }
    MPI_Op_free(&operation);
    MPI_Type_free(&element);
    return true;
  }

  int flush(Clock::time_point deadline) override {
    for (size_t i = 0; i < requests_.size(); ++i) {
      const auto sent = [&] { return is_done(requests_[i], MPI_STATUS_IGNORE); };
      if (!wait_until(deadline, sent)) return peers_[i];
    }
    requests_.clear();
    peers_.clear();
    return -1;
  }

  void abandon() override {
    Session::get().failed = true;
    if (receive_ != MPI_REQUEST_NULL) MPI_Cancel(&receive_);
    // Sends cannot be cancelled; their memory stays, see Transport::abandon().
  }

  void notify(const Notice& notice) override {
    const WireNotice& wire = lasting(notice);
    for (int r = 0; r < size(); ++r) {
      if (r != rank_) send_notice(r, wire);
    }
  }
  void forward(int peer, const Notice& notice) override { send_notice(peer, lasting(notice)); }

  std::vector<Notice> notices() override {
    while (notice_arrived()) {
      arrived_.push_back(wire_.notice());
      has_notice_ = false;
      await_notice();
    }
    return std::exchange(arrived_, {});
  }

  bool disturbed() override { return interrupted_ || notice_arrived() || lost_one(); }
  bool is_lost(int rank) const override {
    return Session::get().processes().has_ended(members_[rank]);
  }
  void interrupt() override { interrupted_ = true; }

  int64_t number_of_split(int64_t) override { return wires_->fresh_tag(); }
  std::unique_ptr<Transport> split(const std::vector<int>& colors, const std::vector<int>& keys,
                                   int64_t tag) override {
    const int color = colors[rank_];
    if (color < 0) return nullptr;
    if (tag > wires_->last_tag) {
      raise<CommError>(
          "[split] this MPI library has tags up to {}, which earlier splits have used up: make "
          "communicators once and keep them",
          wires_->last_tag);
    }
    std::vector<int> members = members_of(color, colors, keys);
    for (int& member : members) member = members_[member];
    return std::make_unique<MpiTransport>(wires_, std::move(members), static_cast<int>(tag),
                                          timeout_);
  }

 private:
  static bool is_done(MPI_Request& request, MPI_Status* status) {
    int done = 0;
    check("MPI_Test", MPI_Test(&request, &done, status));
    return done;
  }
  // Stays until the program ends, since nobody waits until it has left.
  static const WireNotice& lasting(const Notice& notice) {
    static std::list<WireNotice>& sent = *new std::list<WireNotice>;
    static std::mutex mutex;
    std::lock_guard lock(mutex);
    return sent.emplace_back(notice);
  }
  void send_notice(int peer, const WireNotice& wire) {
    if (is_lost(peer)) return;
    MPI_Request request;
    MPI_Isend(&wire, sizeof wire, MPI_BYTE, members_[peer], tag_, wires_->notices, &request);
    MPI_Request_free(&request);
  }
  bool lost_one() const {
    if (!Session::get().processes().look()) return false;
    for (int r = 0; r < size(); ++r) {
      if (is_lost(r)) return true;
    }
    return false;
  }
  void await_notice() {
    check("MPI_Irecv", MPI_Irecv(&wire_, sizeof wire_, MPI_BYTE, MPI_ANY_SOURCE, tag_,
                                 wires_->notices, &notice_request_));
  }
  bool notice_arrived() {
    int done = has_notice_;
    if (!done) check("MPI_Test", MPI_Test(&notice_request_, &done, MPI_STATUS_IGNORE));
    return has_notice_ = done;
  }

  int machine(int rank) const { return wires_->machines[members_[rank]]; }
  // The communicator on which these ranks can call the library's own collectives. A part has none
  // until it asks, since only the library can make it.
  MPI_Comm library() {
    if (tag_ == 0) return wires_->messages;
    if (library_ != MPI_COMM_NULL) return library_;
    const Watchdog limit("[all_reduce] MPI did not make a communicator of a part of the ranks",
                         timeout_, "a rank is stopped or gone");
    MPI_Group all, ours;
    MPI_Comm_group(wires_->messages, &all);
    check("MPI_Group_incl", MPI_Group_incl(all, size(), members_.data(), &ours));
    check("MPI_Comm_create_group", MPI_Comm_create_group(wires_->messages, ours, tag_, &library_));
    MPI_Group_free(&ours);
    MPI_Group_free(&all);
    return library_;
  }

  const std::shared_ptr<Wires> wires_;
  const std::vector<int> members_;  // ranks of the job
  const int tag_;
  const std::chrono::milliseconds timeout_;
  int rank_ = 0, local_rank_ = 0;
  MPI_Comm library_ = MPI_COMM_NULL;

  std::vector<MPI_Request> requests_;  // sends under way
  std::vector<int> peers_;             // and whom they are for
  MPI_Request receive_ = MPI_REQUEST_NULL, all_reduce_ = MPI_REQUEST_NULL;

  WireNotice wire_;  // where the next notice arrives
  MPI_Request notice_request_ = MPI_REQUEST_NULL;
  bool has_notice_ = false;  // it has
  std::vector<Notice> arrived_;
  std::atomic<bool> interrupted_{false};
};

}  // namespace

std::unique_ptr<Communicator> make_mpi(CommOptions options) {
  Session::get().timeout = options.timeout;
  Session::get().processes();
  auto wires = std::make_shared<Wires>();
  std::vector<int> all(wires->hosts.size());
  std::iota(all.begin(), all.end(), 0);
  return std::make_unique<Communicator>(
      std::make_unique<MpiTransport>(std::move(wires), std::move(all), 0, options.timeout),
      options);
}

std::string mpi_description() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0, level = 0;
  MPI_Get_library_version(text, &length);
  const std::string version = text;
  const Watchdog limit("[doctor] MPI did not start", Watchdog::kShortest, "it is not set up here");
  Session::get();
  MPI_Query_thread(&level);
  const char* levels[] = {"SINGLE", "FUNNELED", "SERIALIZED", "MULTIPLE"};
  return fmt::format("{}; MPI_THREAD_{}", version.substr(0, version.find(',')),
                     levels[level - MPI_THREAD_SINGLE]);
}

bool mpi_is_running() {
  int initialised = 0, finalised = 0;
  MPI_Initialized(&initialised);
  MPI_Finalized(&finalised);
  return initialised && !finalised;
}

void mpi_abort(int status) {
  MPI_Abort(MPI_COMM_WORLD, status);
  std::_Exit(status);
}

}  // namespace capstan::distributed

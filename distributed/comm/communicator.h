// Defines Communicator, the ranks of a job as one of them sees them, and its collectives.
//
// Ordering. Every rank must make the same collective calls in the same order on a communicator,
// with the same dtype, count and tag; the calls run one after another in that order. A difference
// between ranks ends in an error that names both calls. Different communicators are independent.
//
// Threads. A call queues its work and returns. A progress thread for each communicator runs the
// queue, so that communication overlaps the caller's computing; a caller in Work::wait() that finds
// it idle runs the queue itself. Calls may come from any thread, but
// the caller must see to it that their order is the same on every rank.
//
// Lifetime. Tensors are kept alive until their call is done; their elements must not be written
// (or, where the call writes them, read) before that. Destroying a communicator finishes queued
// calls.
//
// Failures. When a call fails on one rank (mismatch, timeout, a lost peer, fail()), every rank gets
// a SharedError with the same text: in the calls under way, in queued ones and in all later ones.
// After a failure nothing waits for peers any more, destructors included.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "core/tensor.h"
#include "distributed/comm/algorithm.h"
#include "distributed/comm/work.h"

namespace capstan::distributed {

class Channel;
class Progress;
class SharedMemory;
class Transport;
struct Call;

/// How elements of different ranks are combined. On bool, sum and max are "or", product and min
/// "and". Integers wrap around. min and max of a NaN are NaN. A mean, of floating point numbers, is
/// their sum times 1/n. bit_and and bit_or are for integers and bool. Others get DtypeError.
enum class Reduce : uint8_t { sum, min, max, product, mean, bit_and, bit_or };

/// Elements of each rank, in rank order, where their parts differ.
using Counts = std::vector<int64_t>;

/// In which order the ranks' elements of an all-reduce or a reduce-scatter are combined. The result
/// of an all-reduce is the same on all ranks either way.
enum class Order : uint8_t {
  any,   // whatever is fastest
  tree,  // a balanced binary tree, ((0 + 1) + (2 + 3)) + ...: on 2^k ranks, the upper part of the
         // same tree over finer leaves, so that the sum does not depend on the number of ranks
};

/// A CommError that every rank of the communicator throws with the same text.
struct SharedError : CommError {
  using CommError::CommError;
};

struct CommOptions {
  /// How long one call may take, once it is run. Starts as CAPSTAN_TIMEOUT (in seconds) or
  /// ten minutes.
  std::chrono::milliseconds timeout = default_timeout();
  /// How long a failing rank waits to hear from its peers, so that all agree on one text.
  std::chrono::milliseconds grace{2000};
  /// These are the same on all ranks, or the first call fails.
  Algorithm all_reduce = Algorithm::automatic;
  bool share_memory = true;  // false: as if each rank had a host of its own
  int ranks_per_host = 0;    // as if the ranks of a host were on several, with so many each; 0: no
  /// The folder in which each rank leaves its last calls when a call fails, as
  /// NAME-rank-R.json; empty: none. Starts as CAPSTAN_FLIGHT_RECORDS; where that is not set, ranks
  /// of world() take "flight_records".
  std::string flight_records = default_flight_records();
  /// This communicator's name. A split adds the number of its call and the color: "world-2.1".
  std::string name = "world";

  /// Throws ValueError if CAPSTAN_TIMEOUT is not a positive number.
  static std::chrono::milliseconds default_timeout();
  static std::string default_flight_records();
};

/// What this rank has sent, in payload bytes (headers of messages are not counted).
struct Traffic {
  int64_t bytes_sent = 0;
  int64_t messages = 0;
  int64_t collectives = 0;  // calls made
};

class Communicator {
 public:
  /// Takes over the wires of one rank. Users call make_self(), run_ranks(), make_mpi() or world().
  /// Throws ValueError for options that are out of range.
  explicit Communicator(std::unique_ptr<Transport> transport, CommOptions options = {});
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const;
  int size() const;
  /// Name of the machine that a rank runs on, and this rank's number among those of its machine.
  const std::string& host(int rank) const;
  int local_rank() const;

  // Collectives. Tensors are contiguous and on a CPU; every dtype will do. All throw ShapeError,
  // DtypeError, DeviceError or ValueError for bad arguments, at once and on this rank alone. `tag`
  // says in words what is being sent, for the flight record and for errors.

  /// Zeros in memory that the ranks of this host share, where a reduction moves each byte the least
  /// times; ordinary zeros where the ranks run on several hosts. For tensors that are used often,
  /// such as gradient buckets. A collective that waits until it is done. Views of the tensor are
  /// recognised by their place, which must be the same on all ranks; its memory is the other ranks'
  /// to write to while a call on it runs; after a failure a late rank may still write.
  /// Throws ShapeError for negative sizes, DeviceError for a device that is not a CPU.
  Tensor shared_zeros(const Shape& shape, TensorOptions options = {}, std::string_view tag = {});

  /// Combines the ranks' tensors element by element, in place, the same to the bit on every rank.
  /// Throws ValueError for Order::tree where another algorithm is asked for that has none, and for
  /// MPI's own where MPI does not join the ranks. Shared memory is asked for in vain on several
  /// hosts: a CommError on all ranks.
  Work all_reduce(const Tensor& tensor, Reduce op = Reduce::sum, std::string_view tag = {},
                  Order order = Order::any);
  /// The algorithm of the all-reduces from now on, on all ranks; starts as that of options().
  void set_all_reduce(Algorithm algorithm) { algorithm_ = algorithm; }
  /// As all_reduce, but only the root's tensor is changed.
  Work reduce(const Tensor& tensor, int root, Reduce op = Reduce::sum, std::string_view tag = {});
  /// Copies the root's elements into every rank's tensor.
  Work broadcast(const Tensor& tensor, int root, std::string_view tag = {});
  /// Joins the ranks' `mine` [k elements] into `all` [size() * k] on every rank, in rank order.
  /// `mine` may be a view of its own place in `all`.
  Work all_gather(const Tensor& mine, const Tensor& all, std::string_view tag = {});
  /// The same for parts of any sizes: rank r's `mine` has counts[r] elements. The same counts on
  /// all ranks.
  Work all_gather(const Tensor& mine, const Tensor& all, const Counts& counts,
                  std::string_view tag = {});
  /// Combines the ranks' `all` [size() * k] and leaves part rank() of it in `mine` [k]. `mine` may
  /// be a view of its own place in `all`, the rest of which is then lost: that takes no memory for
  /// sums on their way.
  Work reduce_scatter(const Tensor& all, const Tensor& mine, Reduce op = Reduce::sum,
                      std::string_view tag = {}, Order order = Order::any);
  /// The same for parts of any sizes: rank r's `mine` has counts[r] elements. The same counts on
  /// all ranks.
  Work reduce_scatter(const Tensor& all, const Tensor& mine, const Counts& counts,
                      Reduce op = Reduce::sum, std::string_view tag = {}, Order order = Order::any);
  /// As all_gather, but only the root's `all` is used; the others may pass an empty handle.
  Work gather(const Tensor& mine, const Tensor& all, int root, std::string_view tag = {});
  /// Part r of the root's `all` [size() * k] goes to rank r's `mine` [k]; others as in gather.
  Work scatter(const Tensor& all, const Tensor& mine, int root, std::string_view tag = {});
  /// Part r of `out` [size() * k] goes to part rank() of rank r's `in` [size() * k].
  Work all_to_all(const Tensor& out, const Tensor& in, std::string_view tag = {});
  /// The same for parts of any sizes: out_counts[r] elements of `out` go to rank r, and
  /// in_counts[r] elements of `in` come from it. Ranks whose counts do not agree get a CommError.
  Work all_to_all(const Tensor& out, const Counts& out_counts, const Tensor& in,
                  const Counts& in_counts, std::string_view tag = {});
  /// Done once every rank has made the call.
  Work barrier(std::string_view tag = {});

  // Point to point. A send may wait for its receiver (small ones need not), and later calls of this
  // rank wait for it; so two ranks that send to each other use send_recv, not send then recv.
  Work send(const Tensor& tensor, int to, std::string_view tag = {});
  Work recv(const Tensor& tensor, int from, std::string_view tag = {});
  /// Sends `out` and receives `in`, of the same dtype and count, at the same time.
  Work send_recv(const Tensor& out, int to, const Tensor& in, int from, std::string_view tag = {});

  /// Runs `calls`, which makes collectives or sends on this communicator, and queues what it asked
  /// for as one entry: one Work for all, in the queue without a gap. Every Work made inside is that
  /// one, and must not be waited for there. First all sends start, then all receives are served, so
  /// ranks may send to each other in any order; then the collectives run in their order.
  ///   Work both = c.group([&] { c.all_reduce(loss); c.all_reduce(count); });
  /// Throws ValueError for a group in a group, and what `calls` throws; then nothing is queued.
  Work group(const std::function<void()>& calls);

  // Text, and agreement between ranks (consensus.cc). These wait until they are done.

  /// Every rank's text, in rank order. Texts may hold any bytes.
  std::vector<std::string> all_gather_strings(const std::string& mine, std::string_view tag = {});
  /// The root's text.
  std::string broadcast_string(const std::string& text, int root, std::string_view tag = {});
  /// Throws SharedError on every rank, naming `what` and the first difference, unless all ranks
  /// pass the same text: options, a list of parameters, a plan of buckets.
  void agree(std::string_view what, const std::string& text);
  /// Runs `fn` on each rank. If it throws on any, every rank throws SharedError with the message of
  /// the lowest such rank, after "rank N on HOST: " unless all failed with that same message. Use
  /// it around what can fail on one rank alone: opening a file, parsing options.
  void together(std::string_view what, const std::function<void()>& fn);

  /// A communicator of the ranks that pass the same color, ordered by key, then by rank. A negative
  /// color takes no part and gets null. Returns when the ranks of the part have met; throws
  /// SharedError if they do not.
  std::unique_ptr<Communicator> split(int color, int key = 0);

  /// Fails this communicator on every rank because of `message`, and returns the text that all of
  /// them throw from now on. For the code that runs a rank and catches what it throws. Flight
  /// records are saved if that is of use: if the ranks do not know the reason anyway.
  std::string fail(const std::string& message, bool save_flight_records = true);
  /// The text of the failure; empty while all is well.
  std::string failure() const;
  /// After fail(message), as the last act of a rank: waits, at most options().grace, until all
  /// ranks are here; the lowest one calls `report` with the text for the user, and the others wait
  /// for that. Returns whether all ranks came.
  bool leave(const std::string& message, const std::function<void(const std::string&)>& report);

  Traffic traffic() const;
  const CommOptions& options() const;
  /// The last 64 calls, one a line: sequence, kind, dtype, count, tag, state.
  std::string flight_record() const;
  /// Writes this rank's into `folder`, or that of options(), as JSON, and returns the file's path.
  /// `reason` is given as the failure where there was none. Throws ValueError if there is no
  /// folder, IoError if it cannot be written.
  std::string save_flight_record(const std::string& folder = {},
                                 const std::string& reason = {}) const;

 private:
  Work start(const Call& call, std::function<void(Channel&)> body, bool only_sends = false);
  void check_peer(int peer) const;

  // What shared_zeros() made and still exists.
  struct Shared {
    int32_t number;  // of the call that made it, so the same on all ranks
    std::weak_ptr<const SharedMemory> memory;
  };
  struct Place {
    std::shared_ptr<const SharedMemory> memory;  // null for ordinary memory
    int32_t number = 0;
    int64_t offset = 0;  // in elements
  };
  Place find_shared(const Tensor& tensor);

  std::atomic<Algorithm> algorithm_;
  std::mutex mutex_;  // guards shared_
  std::vector<Shared> shared_;
  std::shared_ptr<Progress> progress_;
};

}  // namespace capstan::distributed

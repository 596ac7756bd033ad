// Implements Communicator: checks arguments, describes the call, and hands the algorithm to
// Progress.
#include "distributed/comm/communicator.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "core/raise.h"
#include "distributed/comm/direct.h"
#include "distributed/comm/halving_doubling.h"
#include "distributed/comm/hierarchical.h"
#include "distributed/comm/progress.h"
#include "distributed/comm/ring.h"
#include "distributed/comm/shared_all_reduce.h"
#include "distributed/comm/tree.h"

namespace capstan::distributed {
namespace {

void check_device(Kind kind, Device device) {
  if (device.kind == Device::Kind::cpu) return;
  raise<DeviceError>("[{}] this communicator moves host memory, got a tensor on {}",
                     to_string(kind), device);
}

// A tensor as the algorithms see it. Holding one keeps the memory alive.
struct Buffer {
  Buffer(Kind kind, const Tensor& tensor) : tensor(tensor) {
    check_device(kind, tensor.device());
    if (!tensor.is_contiguous()) {
      raise<ShapeError>(
          "[{}] the tensor must be contiguous, got shape {} with strides {}; pass a copy",
          to_string(kind), tensor.shape(), tensor.strides());
    }
    data = tensor.address();
    count = tensor.numel();
    bytes = tensor.bytes();
    dtype = tensor.dtype();
  }

  // Announces a write, before it (a tape must not save the tensor as it is now) and after it.
  void written() const { tensor.storage().bump_version(); }

  Tensor tensor;
  void* data;
  int64_t count, bytes;
  Dtype dtype;
};

void check_rank(Kind kind, int rank, int size) {
  if (rank < 0 || rank >= size) {
    raise<ValueError>("[{}] rank {} is not among the {} of this communicator", to_string(kind),
                      rank, size);
  }
}

void check_reduce(Kind kind, Reduce op, Dtype dtype) {
  const bool bits = op == Reduce::bit_and || op == Reduce::bit_or;
  if ((op == Reduce::mean && !is_floating(dtype)) || (bits && is_floating(dtype))) {
    raise<DtypeError>("[{}] there is no {} of {}", to_string(kind), to_string(op), dtype);
  }
}

// The end of a reduction, on a rank that has the result.
void divide_mean(Reduce op, const Tensor& tensor, int ranks) {
  if (op == Reduce::mean) scale_elements(tensor, 1.0 / ranks);
}

// Where parts of these sizes begin. `which` says whose they are.
Parts parts_of(Kind kind, const char* which, const Counts& counts, int ranks, int64_t elements) {
  Parts parts{0};
  for (int64_t count : counts) {
    if (count < 0)
      raise<ValueError>("[{}] counts must be 0 or more, got {}", to_string(kind), count);
    parts.push_back(parts.back() + count);
  }
  if (std::ssize(counts) != ranks || parts.back() != elements) {
    raise<ShapeError>(
        "[{}] there must be a count for each of the {} ranks, {} elements of {} together; got {} "
        "counts, {} elements",
        to_string(kind), ranks, elements, which, counts.size(), parts.back());
  }
  return parts;
}

bool has_tree_order(Algorithm algorithm) {
  return algorithm == Algorithm::automatic || algorithm == Algorithm::halving_doubling ||
         algorithm == Algorithm::shared_memory;
}

// How an all-reduce is carried out; only `automatic` leaves a choice.
Algorithm choose(Algorithm asked, Order order, const Channel& channel, int64_t bytes) {
  if (channel.size() == 1) return Algorithm::ring;  // done at once
  if (asked == Algorithm::shared_memory && !channel.shares_memory()) {
    raise<CommError>(
        "[all_reduce] shared_memory is for ranks of one host; these have {}: take hierarchical",
        channel.hosts());
  }
  if (asked != Algorithm::automatic) return asked;
  if (channel.shares_memory() && order == Order::tree) return Algorithm::shared_memory;
  if (order == Order::tree) return Algorithm::halving_doubling;
  return tuned_algorithm(channel.hosts(), channel.size(), bytes);
}

// The calls that a thread is making inside group().
struct Group {
  const Communicator* owner;
  std::vector<Progress::Step> steps;
  std::shared_ptr<Work::State> work;
};
thread_local Group* open_group = nullptr;

bool waits_for_its_result(Kind kind) {
  return kind == Kind::all_gather_strings || kind == Kind::broadcast_string ||
         kind == Kind::split || kind == Kind::share;
}

void check_part(Kind kind, const Buffer& part, int64_t count) {
  if (part.count == count) return;
  raise<ShapeError>("[{}] this rank's part has {} elements, its tensor is {}", to_string(kind),
                    count, part.tensor.shape());
}

void check_dtypes(Kind kind, const Buffer& a, const Buffer& b) {
  if (a.dtype == b.dtype) return;
  raise<DtypeError>("[{}] dtypes must agree, got {} and {}", to_string(kind), a.dtype, b.dtype);
}

// `all` holds one part of the size of `part` for each rank.
void check_parts(Kind kind, const Buffer& all, const Buffer& part, int size) {
  check_dtypes(kind, all, part);
  if (all.count != part.count * size) {
    raise<ShapeError>(
        "[{}] the whole must have {} parts of the size of a rank's tensor, got {} and {}",
        to_string(kind), size, all.tensor.shape(), part.tensor.shape());
  }
}

}  // namespace

std::chrono::milliseconds CommOptions::default_timeout() {
  const char* text = std::getenv("CAPSTAN_TIMEOUT");
  if (!text) return std::chrono::minutes(10);
  char* end = nullptr;
  const double seconds = std::strtod(text, &end);
  if (end == text || *end || !(seconds > 0) || seconds > 1e9) {
    raise<ValueError>("[communicator] CAPSTAN_TIMEOUT is a number of seconds above 0, got '{}'",
                      text);
  }
  return std::chrono::milliseconds(static_cast<int64_t>(std::ceil(seconds * 1000)));
}

std::string CommOptions::default_flight_records() {
  const char* folder = std::getenv("CAPSTAN_FLIGHT_RECORDS");
  return folder ? folder : "";
}

Communicator::Communicator(std::unique_ptr<Transport> transport, CommOptions options)
    : algorithm_(options.all_reduce) {
  if (options.timeout.count() <= 0 || options.grace.count() < 0 || options.ranks_per_host < 0) {
    raise<ValueError>(
        "[communicator] the timeout must be above 0, the grace and ranks_per_host not below it; "
        "got {} ms, {} ms, {}",
        options.timeout.count(), options.grace.count(), options.ranks_per_host);
  }
  progress_ = std::make_shared<Progress>(std::move(transport), options);
}
Communicator::~Communicator() { progress_->stop(); }

int Communicator::rank() const { return progress_->transport().rank(); }
int Communicator::size() const { return progress_->transport().size(); }
int Communicator::local_rank() const { return progress_->transport().local_rank(); }
const std::string& Communicator::host(int rank) const {
  if (rank < 0 || rank >= size()) raise<ValueError>("[host] no rank {} among {}", rank, size());
  return progress_->transport().host(rank);
}

Work Communicator::start(const Call& call, std::function<void(Channel&)> body, bool only_sends) {
  Progress::Step step{call, std::move(body), only_sends};
  if (!open_group || open_group->owner != this) return progress_->start(std::move(step));
  if (waits_for_its_result(call.kind)) {
    raise<ValueError>("[{}] waits for its result, so it cannot be made in a group",
                      to_string(call.kind));
  }
  open_group->steps.push_back(std::move(step));
  return Work(open_group->work);
}

Work Communicator::group(const std::function<void()>& calls) {
  if (open_group) raise<ValueError>("[group] a group cannot be made in a group");
  Group group{this, {}, std::make_shared<Work::State>()};
  group.work->collecting = true;
  open_group = &group;
  const auto close = [&] {
    open_group = nullptr;
    group.work->collecting = false;
  };
  try {
    calls();
    close();
    return group.steps.empty() ? Work() : progress_->start(std::move(group.steps), group.work);
  } catch (...) {
    close();
    group.work->finish("[group] the group was given up");  // for those who kept its Work
    throw;
  }
}

Tensor Communicator::shared_zeros(const Shape& shape, TensorOptions options, std::string_view tag) {
  check_device(Kind::share, options.device);
  const int64_t count = empty(shape, {options.dtype, Device::meta()}).numel();
  const int64_t bytes = count * item_size(options.dtype);
  if (size() == 1) return zeros(shape, options);
  struct State {
    std::shared_ptr<SharedMemory> memory;
    int32_t number;
  };
  auto state = std::make_shared<State>();
  start(Call(Kind::share, tag, options.dtype, count), [state, bytes](Channel& channel) {
    state->number = static_cast<int32_t>(channel.call().sequence);
    if (channel.shares_memory()) state->memory = share_memory(channel, bytes);
    channel.finish();
  }).wait();
  const std::shared_ptr<const SharedMemory> memory = state->memory;
  if (!memory) return zeros(shape, options);
  {
    std::lock_guard lock(mutex_);
    std::erase_if(shared_, [](const Shared& s) { return s.memory.expired(); });
    shared_.push_back({state->number, memory});
  }
  auto storage = make_ref<Storage>(memory->block(rank()), bytes, options.device, [memory] {});
  return tensor_over(std::move(storage), Layout::dense(shape), options.dtype);
}

Communicator::Place Communicator::find_shared(const Tensor& tensor) {
  const auto* address = static_cast<const std::byte*>(tensor.address());
  std::lock_guard lock(mutex_);
  for (const Shared& shared : shared_) {
    const auto memory = shared.memory.lock();
    if (!memory) continue;
    const std::ptrdiff_t offset = address - memory->block(rank());
    if (offset < 0 || offset >= memory->bytes()) continue;
    return {memory, shared.number, offset / item_size(tensor.dtype())};
  }
  return {};
}

Work Communicator::all_reduce(const Tensor& tensor, Reduce op, std::string_view tag, Order order) {
  const Buffer buffer(Kind::all_reduce, tensor);
  check_reduce(Kind::all_reduce, op, buffer.dtype);
  const Algorithm asked = algorithm_;
  if (order == Order::tree && !has_tree_order(asked)) {
    raise<ValueError>(
        "[all_reduce] {} does not combine in the order of a tree: leave the algorithm to be "
        "chosen, or take halving_doubling",
        to_string(asked));
  }
  if (asked == Algorithm::mpi && size() > 1 && !progress_->transport().has_all_reduce()) {
    raise<ValueError>("[all_reduce] there is no MPI among these ranks: choose another algorithm");
  }
  const Place place = find_shared(tensor);
  buffer.written();
  return start(
      Call(Kind::all_reduce, tag, buffer.dtype, buffer.count)
          .with_op(op)
          .with_algorithm(asked, order)
          .with_place(place.number, place.offset),
      [=](Channel& channel) {
        const auto& [_, data, count, bytes, dtype] = buffer;
        const bool in_place = place.memory && asked == Algorithm::automatic;
        switch (in_place ? Algorithm::shared_memory : choose(asked, order, channel, bytes)) {
          case Algorithm::shared_memory:
            if (place.memory) {
              shared_all_reduce(channel, op, dtype, *place.memory, place.offset, count);
            } else {
              staged_all_reduce(channel, op, dtype, data, count);
            }
            break;
          case Algorithm::halving_doubling:
            halving_doubling_all_reduce(channel, op, dtype, data, count);
            break;
          case Algorithm::tree:
            tree_reduce(channel, op, dtype, 0, data, count);
            tree_broadcast(channel, 0, data, bytes);
            break;
          case Algorithm::hierarchical:
            hierarchical_all_reduce(channel, op, dtype, data, count);
            break;
          case Algorithm::mpi:
            channel.all_reduce_by_transport(op, dtype, data, count);
            break;
          case Algorithm::automatic:
          case Algorithm::ring:
            ring_all_reduce(channel, op, dtype, data, count);
        }
        divide_mean(op, buffer.tensor, channel.size());
        buffer.written();
      });
}

Work Communicator::reduce(const Tensor& tensor, int root, Reduce op, std::string_view tag) {
  const Buffer buffer(Kind::reduce, tensor);
  check_rank(Kind::reduce, root, size());
  check_reduce(Kind::reduce, op, buffer.dtype);
  if (rank() == root) buffer.written();
  return start(Call(Kind::reduce, tag, buffer.dtype, buffer.count).with_op(op).with_root(root),
               [=](Channel& channel) {
                 tree_reduce(channel, op, buffer.dtype, root, buffer.data, buffer.count);
                 if (channel.rank() != root) return;
                 divide_mean(op, buffer.tensor, channel.size());
                 buffer.written();
               });
}

Work Communicator::broadcast(const Tensor& tensor, int root, std::string_view tag) {
  const Buffer buffer(Kind::broadcast, tensor);
  check_rank(Kind::broadcast, root, size());
  if (rank() != root) buffer.written();
  return start(Call(Kind::broadcast, tag, buffer.dtype, buffer.count).with_root(root),
               [=](Channel& channel) {
                 tree_broadcast(channel, root, buffer.data, buffer.bytes);
                 if (channel.rank() != root) buffer.written();
               });
}

Work Communicator::all_gather(const Tensor& mine, const Tensor& all, std::string_view tag) {
  const Buffer part(Kind::all_gather, mine), whole(Kind::all_gather, all);
  check_parts(Kind::all_gather, whole, part, size());
  return all_gather(mine, all, Counts(size(), part.count), tag);
}

Work Communicator::all_gather(const Tensor& mine, const Tensor& all, const Counts& counts,
                              std::string_view tag) {
  const Buffer part(Kind::all_gather, mine), whole(Kind::all_gather, all);
  check_dtypes(Kind::all_gather, whole, part);
  const Parts parts = parts_of(Kind::all_gather, "the whole", counts, size(), whole.count);
  check_part(Kind::all_gather, part, counts[rank()]);
  whole.written();
  const Call call = Call(Kind::all_gather, tag, whole.dtype, whole.count).with_counts(counts);
  return start(call, [=](Channel& channel) {
    auto* place =
        static_cast<std::byte*>(whole.data) + parts[channel.rank()] * item_size(whole.dtype);
    if (part.bytes > 0 && place != part.data) std::memmove(place, part.data, part.bytes);
    ring_all_gather(channel, whole.dtype, whole.data, parts);
    whole.written();
  });
}

Work Communicator::reduce_scatter(const Tensor& all, const Tensor& mine, Reduce op,
                                  std::string_view tag, Order order) {
  const Buffer whole(Kind::reduce_scatter, all), part(Kind::reduce_scatter, mine);
  check_parts(Kind::reduce_scatter, whole, part, size());
  return reduce_scatter(all, mine, Counts(size(), part.count), op, tag, order);
}

Work Communicator::reduce_scatter(const Tensor& all, const Tensor& mine, const Counts& counts,
                                  Reduce op, std::string_view tag, Order order) {
  const Buffer whole(Kind::reduce_scatter, all), part(Kind::reduce_scatter, mine);
  check_dtypes(Kind::reduce_scatter, whole, part);
  check_reduce(Kind::reduce_scatter, op, whole.dtype);
  const Parts parts = parts_of(Kind::reduce_scatter, "the whole", counts, size(), whole.count);
  check_part(Kind::reduce_scatter, part, counts[rank()]);
  const auto* place =
      static_cast<const std::byte*>(whole.data) + parts[rank()] * item_size(whole.dtype);
  const bool in_place =
      &all.storage() == &mine.storage() && (part.count == 0 || part.data == place);
  if (order == Order::tree && !in_place && &all.storage() == &mine.storage()) {
    raise<ValueError>(
        "[reduce_scatter] in the order of a tree, this rank's part lies in its own place in the "
        "whole, or apart from it");
  }
  part.written();
  // Memory for a ring's sums on their way. Like all memory that messages use, it belongs to the
  // body: after a failure that is never freed.
  const Tensor sums = in_place || order == Order::tree ? all : empty_like(all);
  const Call call = Call(Kind::reduce_scatter, tag, whole.dtype, whole.count)
                        .with_op(op)
                        .with_algorithm(Algorithm::automatic, order)
                        .with_counts(counts);
  return start(call, [=](Channel& channel) {
    if (order == Order::tree) {
      direct_reduce_scatter(channel, op, whole.dtype, whole.data, part.data, parts);
    } else {
      auto* to = static_cast<std::byte*>(sums.address());
      ring_reduce_scatter(channel, op, whole.dtype, whole.data, to, parts);
      to += parts[channel.rank()] * item_size(whole.dtype);
      if (part.bytes > 0 && to != part.data) std::memcpy(part.data, to, part.bytes);
    }
    divide_mean(op, part.tensor, channel.size());
    part.written();
  });
}

Work Communicator::gather(const Tensor& mine, const Tensor& all, int root, std::string_view tag) {
  const Buffer part(Kind::gather, mine);
  check_rank(Kind::gather, root, size());
  const Buffer whole = rank() == root ? Buffer(Kind::gather, all) : part;
  if (rank() == root) {
    check_parts(Kind::gather, whole, part, size());
    whole.written();
  }
  return start(Call(Kind::gather, tag, part.dtype, part.count).with_root(root),
               [=](Channel& channel) {
                 direct_gather(channel, root, part.data, whole.data, part.bytes);
                 if (channel.rank() == root) whole.written();
               });
}

Work Communicator::scatter(const Tensor& all, const Tensor& mine, int root, std::string_view tag) {
  const Buffer part(Kind::scatter, mine);
  check_rank(Kind::scatter, root, size());
  const Buffer whole = rank() == root ? Buffer(Kind::scatter, all) : part;
  if (rank() == root) check_parts(Kind::scatter, whole, part, size());
  part.written();
  return start(Call(Kind::scatter, tag, part.dtype, part.count).with_root(root),
               [=](Channel& channel) {
                 direct_scatter(channel, root, whole.data, part.data, part.bytes);
                 part.written();
               });
}

Work Communicator::all_to_all(const Tensor& out, const Tensor& in, std::string_view tag) {
  const int64_t count = Buffer(Kind::all_to_all, out).count;
  if (count != Buffer(Kind::all_to_all, in).count || count % size() != 0) {
    raise<ShapeError>(
        "[all_to_all] both tensors must have the same multiple of {} elements, got {} and {}",
        size(), out.shape(), in.shape());
  }
  const Counts counts(size(), count / size());
  return all_to_all(out, counts, in, counts, tag);
}

Work Communicator::all_to_all(const Tensor& out, const Counts& out_counts, const Tensor& in,
                              const Counts& in_counts, std::string_view tag) {
  const Buffer from(Kind::all_to_all, out), to(Kind::all_to_all, in);
  check_dtypes(Kind::all_to_all, from, to);
  const Parts sent = parts_of(Kind::all_to_all, "what is sent", out_counts, size(), from.count);
  const Parts received = parts_of(Kind::all_to_all, "what comes", in_counts, size(), to.count);
  if (out_counts[rank()] != in_counts[rank()]) {
    raise<ShapeError>("[all_to_all] this rank sends itself {} elements and expects {}",
                      out_counts[rank()], in_counts[rank()]);
  }
  const auto* begin = static_cast<const std::byte*>(from.data);
  if (from.bytes > 0 && to.bytes > 0 && begin < static_cast<std::byte*>(to.data) + to.bytes &&
      static_cast<std::byte*>(to.data) < begin + from.bytes) {
    raise<ValueError>("[all_to_all] the tensors must not share memory");
  }
  to.written();
  return start(Call(Kind::all_to_all, tag, from.dtype), [=](Channel& channel) {
    direct_all_to_all(channel, from.dtype, from.data, sent, to.data, received);
    to.written();
  });
}

Work Communicator::barrier(std::string_view tag) {
  return start(Call(Kind::barrier, tag), dissemination_barrier);
}

Work Communicator::send(const Tensor& tensor, int to, std::string_view tag) {
  const Buffer buffer(Kind::send_recv, tensor);
  check_peer(to);
  return start(
      Call(Kind::send_recv, tag, buffer.dtype, buffer.count),
      [=](Channel& channel) {
        channel.send(to, buffer.data, buffer.bytes);
        channel.finish();
      },
      /*only_sends=*/true);
}

Work Communicator::recv(const Tensor& tensor, int from, std::string_view tag) {
  const Buffer buffer(Kind::send_recv, tensor);
  check_peer(from);
  buffer.written();
  return start(Call(Kind::send_recv, tag, buffer.dtype, buffer.count), [=](Channel& channel) {
    channel.receive(from, buffer.data, buffer.bytes);
    buffer.written();
  });
}

Work Communicator::send_recv(const Tensor& out, int to, const Tensor& in, int from,
                             std::string_view tag) {
  const Buffer sent(Kind::send_recv, out), received(Kind::send_recv, in);
  check_peer(to);
  check_peer(from);
  check_dtypes(Kind::send_recv, sent, received);
  if (sent.count != received.count) {
    raise<ShapeError>("[send_recv] both tensors must have as many elements, got {} and {}",
                      sent.count, received.count);
  }
  received.written();
  return start(Call(Kind::send_recv, tag, sent.dtype, sent.count), [=](Channel& channel) {
    channel.send(to, sent.data, sent.bytes);
    channel.receive(from, received.data, received.bytes);
    channel.finish();
    received.written();
  });
}

void Communicator::check_peer(int peer) const {
  check_rank(Kind::send_recv, peer, size());
  if (peer == rank()) raise<ValueError>("[send_recv] rank {} cannot send to itself", peer);
}

std::unique_ptr<Communicator> Communicator::split(int color, int key) {
  struct State {
    std::vector<int32_t> colors, keys;
    std::unique_ptr<Transport> part;
    int64_t sequence = 0;
  };
  auto state = std::make_shared<State>();
  state->colors.resize(size());
  state->keys.resize(size());
  state->colors[rank()] = color;
  state->keys[rank()] = key;
  start(Call(Kind::split, {}), [state](Channel& channel) {
    const Parts parts = even_parts(channel.size(), channel.size());
    ring_all_gather(channel, Dtype::int32, state->colors.data(), parts);
    ring_all_gather(channel, Dtype::int32, state->keys.data(), parts);
    state->sequence = channel.call().sequence;
    state->part = channel.transport().split(state->colors, state->keys, state->sequence);
  }).wait();
  if (!state->part) return nullptr;
  CommOptions part_options = options();
  part_options.all_reduce = algorithm_;
  part_options.name += fmt::format("-{}.{}", state->sequence, color);
  return std::make_unique<Communicator>(std::move(state->part), part_options);
}

std::string Communicator::fail(const std::string& message, bool save_flight_records) {
  return progress_->fail(message, save_flight_records);
}
std::string Communicator::failure() const { return progress_->failure(); }

bool Communicator::leave(const std::string& message,
                         const std::function<void(const std::string&)>& report) {
  return progress_->leave(message, report);
}

Traffic Communicator::traffic() const { return progress_->traffic(); }
const CommOptions& Communicator::options() const { return progress_->options(); }
std::string Communicator::flight_record() const { return progress_->record().text(); }

std::string Communicator::save_flight_record(const std::string& folder,
                                             const std::string& reason) const {
  const std::string& where = folder.empty() ? options().flight_records : folder;
  if (where.empty()) {
    raise<ValueError>(
        "[flight_record] there is no folder to save to: name one, or set CAPSTAN_FLIGHT_RECORDS");
  }
  const RecordOwner owner = progress_->owner();
  const std::string path = FlightRecord::path(where, owner);
  const std::string why = failure();
  FlightRecord::save(path, progress_->record().json(owner, why.empty() ? reason : why));
  return path;
}

}  // namespace capstan::distributed

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
#include "distributed/comm/progress.h"
#include "distributed/comm/ring.h"
#include "distributed/comm/shared.h"
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

// `all` holds one part of the size of `part` for each rank.
void check_parts(Kind kind, const Buffer& all, const Buffer& part, int size) {
  if (all.dtype != part.dtype) {
    raise<DtypeError>("[{}] dtypes must agree, got {} and {}", to_string(kind), all.dtype,
                      part.dtype);
  }
  if (all.count != part.count * size) {
    raise<ShapeError>(
        "[{}] the whole must have {} parts of the size of a rank's tensor, got {} and {}",
        to_string(kind), size, all.tensor.shape(), part.tensor.shape());
  }
}

Algorithm choose(const Channel& channel, Algorithm wanted, Order order) {
  if (channel.size() == 1) return Algorithm::ring;  // it does nothing
  if (wanted == Algorithm::shared_memory && !channel.shares_memory()) {
    raise<CommError>(
        "[all_reduce] the ranks do not share memory: leave the algorithm to be chosen");
  }
  if (wanted != Algorithm::automatic) return wanted;
  if (channel.shares_memory()) return Algorithm::shared_memory;
  return order == Order::tree ? Algorithm::halving_doubling : Algorithm::ring;
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

Communicator::Communicator(std::unique_ptr<Transport> transport, CommOptions options)
    : progress_(std::make_shared<Progress>(std::move(transport), options)) {}
Communicator::~Communicator() { progress_->stop(); }

int Communicator::rank() const { return progress_->transport().rank(); }
int Communicator::size() const { return progress_->transport().size(); }
int Communicator::local_rank() const { return progress_->transport().local_rank(); }
const std::string& Communicator::host(int rank) const {
  if (rank < 0 || rank >= size()) raise<ValueError>("[host] no rank {} among {}", rank, size());
  return progress_->transport().host(rank);
}

Work Communicator::start(const Call& call, std::function<void(Channel&)> body) {
  return progress_->start(call, std::move(body));
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
  const Algorithm wanted = options().all_reduce;
  if (wanted == Algorithm::ring && order == Order::tree) {
    raise<ValueError>(
        "[all_reduce] a ring does not combine in the order of a tree: leave the algorithm to be "
        "chosen, or take halving_doubling");
  }
  const Place place = find_shared(tensor);
  buffer.written();
  return start(Call(Kind::all_reduce, tag, buffer.dtype, buffer.count)
                   .with_op(op)
                   .with_algorithm(wanted)
                   .with_place(place.number, place.offset),
               [=](Channel& channel) {
                 const auto& [_, data, count, bytes, dtype] = buffer;
                 switch (choose(channel, wanted, order)) {
                   case Algorithm::ring:
                     ring_all_reduce(channel, op, dtype, data, count);
                     break;
                   case Algorithm::halving_doubling:
                     halving_doubling_all_reduce(channel, op, dtype, data, count);
                     break;
                   default:
                     if (place.memory) {
                       shared_all_reduce(channel, op, dtype, *place.memory, place.offset, count);
                     } else {
                       staged_all_reduce(channel, op, dtype, data, count);
                     }
                 }
                 buffer.written();
               });
}

Work Communicator::reduce(const Tensor& tensor, int root, Reduce op, std::string_view tag) {
  const Buffer buffer(Kind::reduce, tensor);
  check_rank(Kind::reduce, root, size());
  if (rank() == root) buffer.written();
  return start(Call(Kind::reduce, tag, buffer.dtype, buffer.count).with_op(op).with_root(root),
               [=](Channel& channel) {
                 tree_reduce(channel, op, buffer.dtype, root, buffer.data, buffer.count);
                 if (channel.rank() == root) buffer.written();
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
  whole.written();
  return start(Call(Kind::all_gather, tag, part.dtype, part.count), [=](Channel& channel) {
    auto* place = static_cast<std::byte*>(whole.data) + channel.rank() * part.bytes;
    if (part.bytes > 0 && place != part.data) std::memmove(place, part.data, part.bytes);
    ring_all_gather(channel, whole.dtype, whole.data, even_parts(whole.count, channel.size()));
    whole.written();
  });
}

Work Communicator::reduce_scatter(const Tensor& all, const Tensor& mine, Reduce op,
                                  std::string_view tag) {
  const Buffer whole(Kind::reduce_scatter, all), part(Kind::reduce_scatter, mine);
  check_parts(Kind::reduce_scatter, whole, part, size());
  part.written();
  // Memory for sums on their way. Like all memory that messages use, it belongs to the body: after
  // a failure that is never freed.
  const Tensor sums = empty_like(all);
  return start(Call(Kind::reduce_scatter, tag, whole.dtype, whole.count).with_op(op),
               [=](Channel& channel) {
                 auto* to = static_cast<std::byte*>(sums.address());
                 ring_reduce_scatter(channel, op, whole.dtype, whole.data, to,
                                     even_parts(whole.count, channel.size()));
                 std::copy_n(to + channel.rank() * part.bytes, part.bytes,
                             static_cast<std::byte*>(part.data));
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
  const Buffer from(Kind::all_to_all, out), to(Kind::all_to_all, in);
  if (from.dtype != to.dtype) {
    raise<DtypeError>("[all_to_all] dtypes must agree, got {} and {}", from.dtype, to.dtype);
  }
  if (from.count != to.count || from.count % size() != 0) {
    raise<ShapeError>(
        "[all_to_all] both tensors must have the same multiple of {} elements, got {} and {}",
        size(), out.shape(), in.shape());
  }
  if (from.bytes > 0 && from.data == to.data) {
    raise<ValueError>("[all_to_all] the tensors must not share memory");
  }
  to.written();
  return start(Call(Kind::all_to_all, tag, from.dtype, from.count), [=](Channel& channel) {
    direct_all_to_all(channel, from.data, to.data, from.bytes / channel.size());
    to.written();
  });
}

Work Communicator::barrier(std::string_view tag) {
  return start(Call(Kind::barrier, tag), dissemination_barrier);
}

Work Communicator::send(const Tensor& tensor, int to, std::string_view tag) {
  const Buffer buffer(Kind::send_recv, tensor);
  check_peer(to);
  return start(Call(Kind::send_recv, tag, buffer.dtype, buffer.count), [=](Channel& channel) {
    channel.send(to, buffer.data, buffer.bytes);
    channel.finish();
  });
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
  if (sent.dtype != received.dtype) {
    raise<DtypeError>("[send_recv] both tensors must be of one dtype, got {} and {}", sent.dtype,
                      received.dtype);
  }
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
    state->part = channel.transport().split(state->colors, state->keys, channel.call().sequence);
  }).wait();
  if (!state->part) return nullptr;
  return std::make_unique<Communicator>(std::move(state->part), options());
}

std::string Communicator::fail(const std::string& message) { return progress_->fail(message); }
std::string Communicator::failure() const { return progress_->failure(); }

bool Communicator::leave(const std::string& message,
                         const std::function<void(const std::string&)>& report) {
  return progress_->leave(message, report);
}

Traffic Communicator::traffic() const { return progress_->traffic(); }
const CommOptions& Communicator::options() const { return progress_->options(); }
std::string Communicator::flight_record() const { return progress_->record().text(); }

}  // namespace capstan::distributed

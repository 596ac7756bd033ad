// Implements the collectives of Communicator: each checks its arguments, describes the call, and
// hands the algorithm to Progress.
#include <algorithm>
#include <cstring>

#include "core/raise.h"
#include "distributed/comm/buffer.h"
#include "distributed/comm/communicator.h"
#include "distributed/comm/direct.h"
#include "distributed/comm/halving_doubling.h"
#include "distributed/comm/hierarchical.h"
#include "distributed/comm/progress.h"
#include "distributed/comm/ring.h"
#include "distributed/comm/shared_all_reduce.h"
#include "distributed/comm/tree.h"

namespace capstan::distributed {
namespace {

// The end of a reduction, on a rank that has the result.
void divide_mean(Reduce op, const Tensor& tensor, int ranks) {
  if (op == Reduce::mean) scale_elements(tensor, 1.0 / ranks);
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

}  // namespace

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
  const Tensor sums = in_place || order == Order::tree ? all : size() == 1 ? mine : empty_like(all);
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

// Point to point.

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

}  // namespace capstan::distributed

// Defines Call, the description of one collective: what the flight record keeps, what errors name,
// and what ranks compare before they exchange data.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/dtype.h"
#include "distributed/comm/communicator.h"

namespace capstan::distributed {

enum class Kind : uint8_t {
  all_reduce,
  reduce,
  broadcast,
  all_gather,
  reduce_scatter,
  gather,
  scatter,
  all_to_all,
  barrier,
  send_recv,
  all_gather_strings,
  broadcast_string,
  split,
  share,
  connect,
};

/// Travels as it is, in front of the first message between two ranks in each collective; ranks must
/// have sent the same bytes. 128 bytes cost no more time than 32 and leave room for the tag.
struct Call {
  int64_t sequence = 0;  // counts the collectives of a communicator from 1; 0 for send and recv
  int64_t count = 0;     // elements of the tensor that the docstring names first
  int64_t offset = 0;    // in the shared memory, in elements; of parts, their hash
  int32_t memory = 0;    // number of the shared memory that the tensor lies in; 0: in none
  int32_t root = -1;     // -1 where there is none
  Kind kind = Kind::barrier;
  Dtype dtype = Dtype::uint8;
  Reduce op = Reduce::sum;
  bool has_op = false;  // `op` means something
  Algorithm algorithm = Algorithm::automatic;
  Order order = Order::any;
  char tag[90] = {};  // cut to fit, ends in 0

  Call() = default;
  Call(Kind kind, std::string_view tag, Dtype dtype = Dtype::uint8, int64_t count = 0);
  Call with_op(Reduce op) const;
  Call with_root(int root) const;
  Call with_algorithm(Algorithm algorithm, Order order) const;
  Call with_counts(const Counts& counts) const;
  Call with_place(int32_t memory, int64_t offset) const;
};
static_assert(sizeof(Call) == 128);

/// True if two ranks that show each other these calls may exchange data.
bool same_call(const Call& a, const Call& b);

std::string to_string(Kind kind);
std::string to_string(Reduce op);

/// call 12 all_reduce sum float32[1000] "bucket 3"
std::string to_string(const Call& call);

}  // namespace capstan::distributed

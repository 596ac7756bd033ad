// Implements Call.
#include "distributed/comm/call.h"

#include <fmt/format.h>

#include <cstring>

namespace capstan::distributed {

Call::Call(Kind kind, std::string_view text, Dtype dtype, int64_t count)
    : count(count), kind(kind), dtype(dtype) {
  text.substr(0, sizeof(tag) - 1).copy(tag, sizeof(tag) - 1);
}

Call Call::with_op(Reduce which) const {
  Call call = *this;
  call.op = which;
  call.has_op = true;
  return call;
}

Call Call::with_root(int rank) const {
  Call call = *this;
  call.root = rank;
  return call;
}

Call Call::with_algorithm(Algorithm which, Order how) const {
  Call call = *this;
  call.algorithm = which;
  call.order = how;
  return call;
}

// FNV-1a: differences between ranks must show, and nobody makes them on purpose.
Call Call::with_counts(const Counts& counts) const {
  uint64_t hash = 0xcbf29ce484222325;
  for (int64_t count : counts) hash = (hash ^ static_cast<uint64_t>(count)) * 0x100000001b3;
  Call call = *this;
  call.offset = static_cast<int64_t>(hash >> 1);
  return call;
}

Call Call::with_place(int32_t number, int64_t at) const {
  Call call = *this;
  call.memory = number;
  call.offset = at;
  return call;
}

bool same_call(const Call& a, const Call& b) {
  return a.sequence == b.sequence && a.kind == b.kind && a.dtype == b.dtype && a.count == b.count &&
         a.root == b.root && a.op == b.op && a.memory == b.memory && a.offset == b.offset &&
         a.algorithm == b.algorithm && a.order == b.order && std::strcmp(a.tag, b.tag) == 0;
}

std::string to_string(Kind kind) {
  static constexpr const char* kNames[] = {"all_reduce",
                                           "reduce",
                                           "broadcast",
                                           "all_gather",
                                           "reduce_scatter",
                                           "gather",
                                           "scatter",
                                           "all_to_all",
                                           "barrier",
                                           "send_recv",
                                           "all_gather_strings",
                                           "broadcast_string",
                                           "split",
                                           "share",
                                           "connect"};
  const auto index = static_cast<size_t>(kind);
  return index < std::size(kNames) ? kNames[index] : "?";
}

std::string to_string(Reduce op) {
  static constexpr const char* kNames[] = {"sum",  "min",     "max",   "product",
                                           "mean", "bit_and", "bit_or"};
  const auto index = static_cast<size_t>(op);
  return index < std::size(kNames) ? kNames[index] : "?";
}

std::string to_string(const Call& call) {
  std::string text = call.sequence ? fmt::format("call {} ", call.sequence) : "";
  text += to_string(call.kind);
  if (call.has_op) text += " " + to_string(call.op);
  if (call.root >= 0) text += fmt::format(" root {}", call.root);
  const bool has_tensor =
      call.kind <= Kind::all_to_all || call.kind == Kind::send_recv || call.kind == Kind::share;
  if (has_tensor) text += fmt::format(" {}[{}]", to_string(call.dtype), call.count);
  if (call.order == Order::tree) text += " in tree order";
  if (call.algorithm != Algorithm::automatic) text += " by " + to_string(call.algorithm);
  if (call.memory) {
    text += fmt::format(" at {} of shared memory {}", call.offset, call.memory);
  } else if (call.offset) {
    text += fmt::format(" in parts (hash {:x})", call.offset);
  }
  if (call.tag[0]) text += fmt::format(" \"{}\"", call.tag);
  return text;
}

}  // namespace capstan::distributed

// Defines Algorithm, the ways to carry out an all-reduce, by name, and tuned_algorithm(), the
// choice among them from what was measured.
#pragma once

#include <cstdint>
#include <string>

namespace capstan::distributed {

/// Each is explained, with its cost, above its code.
enum class Algorithm : uint8_t {
  automatic,  // the fastest by the table in all_reduce_table.inc. For the order of a tree:
              // shared_memory on one host, halving_doubling on several
  ring,
  halving_doubling,
  tree,           // a reduce and a broadcast
  shared_memory,  // for ranks of one host
  hierarchical,   // shared memory within hosts, a ring across
  mpi,            // MPI's own, for communicators of make_mpi()
};
inline constexpr Algorithm kAlgorithms[] = {
    Algorithm::automatic, Algorithm::ring,          Algorithm::halving_doubling,
    Algorithm::tree,      Algorithm::shared_memory, Algorithm::hierarchical,
    Algorithm::mpi};

/// "automatic", "ring", ...
std::string to_string(Algorithm algorithm);
/// "automatic, ring, ..."
std::string algorithm_names();
/// The algorithm of that name. Throws ValueError that lists the names.
Algorithm algorithm_of(const std::string& name);

/// The fastest for tensors of so many bytes on so many ranks and hosts, of those that every
/// communicator has. Where these were not measured, the nearest number of ranks counts, then the
/// nearest number of hosts; but one host is like no other number.
Algorithm tuned_algorithm(int hosts, int ranks, int64_t bytes);

}  // namespace capstan::distributed

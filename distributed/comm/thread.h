// Defines run_ranks(), which makes ranks of threads: for tests, for teaching, and for strategies
// that drive several devices from one process.
#pragma once

#include <functional>

#include "distributed/comm/communicator.h"

namespace capstan::distributed {

/// Runs fn on `ranks` threads, each with its own communicator (and, as on any thread, its own
/// default_generator()). Returns when all have. If fn throws on one rank, the others' calls fail
/// with SharedError instead of waiting for it, and run_ranks throws the first exception again.
/// Throws ValueError for less than one rank.
void run_ranks(int ranks, const std::function<void(Communicator&)>& fn, CommOptions options = {});

}  // namespace capstan::distributed

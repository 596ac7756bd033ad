// Defines make_self(), the communicator of a program that runs alone.
#pragma once

#include <memory>

#include "distributed/comm/communicator.h"

namespace capstan::distributed {

/// One rank. Every collective takes the same path as on many ranks and is done at once, in the
/// caller, without a copy.
std::unique_ptr<Communicator> make_self(CommOptions options = {});

/// This machine's name.
std::string host_name();

}  // namespace capstan::distributed

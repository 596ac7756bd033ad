// Defines make_mpi(), the communicator of a job started by mpirun or srun.
#pragma once

#include <memory>
#include <string>

#include "distributed/comm/communicator.h"

namespace capstan::distributed {

/// A communicator of all ranks of the MPI job; every rank must call it. MPI is initialised by the
/// first call and finalised when the program ends, unless a communicator has failed. Throws
/// CommError if the MPI library does not allow calls from several threads (MPI_THREAD_MULTIPLE).
std::unique_ptr<Communicator> make_mpi(CommOptions options = {});

/// The library's version, and the level of threads that it gives (which starts MPI).
std::string mpi_description();
/// True once MPI runs in this process.
bool mpi_is_running();
/// Ends the program on all ranks at once, without cleaning up: for errors that the others cannot
/// learn of in another way.
[[noreturn]] void mpi_abort(int status);

}  // namespace capstan::distributed

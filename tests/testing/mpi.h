// What a test case that runs on several ranks may ask. mpi_main.cc has initialised MPI
// (MPI_THREAD_MULTIPLE) before the first one starts, and finalises it after the last.
//
// Every rank runs the same test cases in the same order. After each, the ranks compare their
// verdicts, so a failure on any rank is a failure of the case on all; a rank that failed while its
// peers wait for it in a collective call ends the whole job after a few seconds.
#pragma once

namespace capstan::testing {

/// This process's rank, and the number of ranks, of MPI_COMM_WORLD.
int world_rank();
int world_size();

}  // namespace capstan::testing

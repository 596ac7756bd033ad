// make_mpi() in a process whose MPI was started, by somebody else, without threads.
#include <doctest/doctest.h>
#include <mpi.h>

#include "distributed/comm/mpi.h"

// Open MPI keeps memory when it ends. tools/mpirun.sh tells the address sanitizer so; here is none.
extern "C" const char* __asan_default_options() { return "detect_leaks=0"; }

namespace capstan::distributed {
namespace {

TEST_CASE("an MPI without threads is refused") {
  MPI_Init(nullptr, nullptr);
  CHECK_THROWS_WITH_AS(
      make_mpi(), doctest::Contains("[make_mpi] the MPI library gives thread level"), CommError);
  MPI_Finalize();
}

}  // namespace
}  // namespace capstan::distributed

// Checkpoints across processes: saved and loaded by layouts, and an error on one rank is one on
// all.
#include <doctest/doctest.h>

#include <filesystem>
#include <optional>

#include "distributed/checkpoint/load.h"
#include "distributed/checkpoint/saver.h"
#include "distributed/comm/mpi.h"
#include "tests/distributed/checkpoint/layouts.h"
#include "tests/testing/files.h"

using namespace capstan;
using namespace capstan::distributed;
using namespace capstan::testing;

TEST_CASE("processes save by one layout and load by another") {
  const auto comm = make_mpi();
  std::optional<TemporaryFolder> made;
  if (comm->rank() == 0) made.emplace();
  const std::string folder = comm->broadcast_string(made ? made->path() : "", 0);
  int64_t seed = 0;
  {
    Saver saver(folder, *comm);
    for (const LayoutKind saved : kLayouts) {
      const auto pieces = [&](LayoutKind kind, bool filled) {
        return pieces_of(known_tensors(seed), kind, comm->rank(), comm->size(), filled);
      };
      saver.save({{"model", pieces(saved, true)}}, {{"seed", std::to_string(seed)}});
      saver.finish();
      for (const LayoutKind loaded : kLayouts) {
        const Groups wanted{{"model", pieces(loaded, false)}};
        CHECK(load(folder, wanted, *comm).at("seed") == std::to_string(seed));
        CHECK(same(wanted.at("model"), pieces(loaded, true)));
      }
      ++seed;
    }

    // The last rank cannot write its file, and nobody loses the checkpoint before.
    const int last = comm->size() - 1;
    const std::string blocked = folder + "/b/" + file_name("model", last, comm->size());
    if (comm->rank() == 0) {
      std::filesystem::remove(blocked);
      std::filesystem::create_directories(blocked + "/x");
    }
    comm->barrier().wait();
    const Groups wanted{
        {"model", pieces_of(known_tensors(4), LayoutKind::flat, comm->rank(), comm->size(), true)}};
    saver.save(wanted);
    CHECK_THROWS_WITH_AS(saver.finish(), doctest::Contains("exists and is not a file"),
                         SharedError);
    CHECK(load(folder, wanted, *comm).at("seed") == "4");
  }
  comm->barrier().wait();  // before the folder goes
}

// find_launcher() and world(), from environments that launchers set.
#include <doctest/doctest.h>

#include <cstdlib>
#include <map>
#include <string>

#include "distributed/comm/launch.h"

namespace {

using namespace capstan;
using namespace capstan::distributed;

using Variables = std::map<std::string, std::string>;

// Sets variables for a scope, and unsets all others that launchers set.
class Environment {
 public:
  explicit Environment(const Variables& variables) {
    clear();
    for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
  }
  ~Environment() { clear(); }

 private:
  static void clear() {
    for (const char* name : {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "PMI_SIZE", "PMI_RANK",
                             "SLURM_NTASKS", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"}) {
      unsetenv(name);
    }
  }
};

TEST_CASE("launchers are recognised by what they set") {
  {
    const Environment none(Variables{});
    CHECK(!find_launcher());
    CHECK(world()->size() == 1);
  }
  {
    const Environment mpirun(
        Variables{{"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_RANK", "3"}});
    CHECK(find_launcher()->rank == 3);
    CHECK(find_launcher()->size == 4);
  }
  {
    const Environment mpiexec(Variables{{"PMI_SIZE", "2"}, {"PMI_RANK", "1"}});
    CHECK(find_launcher()->name == "mpiexec (PMI)");
  }
  {
    const Environment srun(
        {{"SLURM_NTASKS", "8"}, {"SLURM_STEP_NUM_TASKS", "6"}, {"SLURM_PROCID", "5"}});
    CHECK(find_launcher()->size == 6);
    CHECK(find_launcher()->rank == 5);
  }
  {
    // Inside an allocation of Slurm, but not started by srun.
    const Environment batch(Variables{{"SLURM_NTASKS", "8"}, {"SLURM_PROCID", "0"}});
    CHECK(!find_launcher());
  }
  {
    const Environment one(Variables{{"OMPI_COMM_WORLD_SIZE", "1"}, {"OMPI_COMM_WORLD_RANK", "0"}});
    CHECK(world()->size() == 1);
  }
}

TEST_CASE("environments that make no sense are refused") {
  for (const auto& [size, rank] : Variables{
           {"2", "2"}, {"0", "0"}, {"two", "0"}, {"3", ""}, {"4", "-1"}, {"99999999999", "0"}}) {
    const Environment bad(
        Variables{{"OMPI_COMM_WORLD_SIZE", size}, {"OMPI_COMM_WORLD_RANK", rank}});
    CHECK_THROWS_AS(find_launcher(), CommError);
  }
  const Environment half(Variables{{"PMI_SIZE", "2"}});
  CHECK_THROWS_AS(find_launcher(), CommError);
}

TEST_CASE("preflight lists the ranks") {
  const Environment none(Variables{});
  const std::string table = preflight(*world(), "cpu:1");
  CHECK(table.find("rank  host") == 0);
  CHECK(table.find("cpu:1") != std::string::npos);
}

}  // namespace

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
    for (const char* name :
         {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "PMI_SIZE", "PMI_RANK", "SLURM_NTASKS",
          "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "PMIX_RANK", "SLURM_STEP_NODELIST",
          "SLURM_JOB_ID", "RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}) {
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
    const Environment srun({{"SLURM_NTASKS", "8"},
                            {"SLURM_STEP_NUM_TASKS", "6"},
                            {"SLURM_PROCID", "5"},
                            {"PMIX_RANK", "5"}});
    CHECK(find_launcher()->name == "srun (Slurm)");
    CHECK(find_launcher()->size == 6);
    CHECK(find_launcher()->rank == 5);
    CHECK(find_launcher()->port == 0);  // MPI joins them
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

TEST_CASE("ranks without MPI know where to meet") {
  {
    const Environment ranks(
        {{"WORLD_SIZE", "4"}, {"RANK", "2"}, {"MASTER_ADDR", "alpha"}, {"MASTER_PORT", "29500"}});
    CHECK(find_launcher()->name == "the environment");
    CHECK(find_launcher()->rank == 2);
    CHECK(find_launcher()->size == 4);
    CHECK(find_launcher()->address == "alpha");
    CHECK(find_launcher()->port == 29500);
    CHECK(launched_rank() == 2);
  }
  {
    const Environment alone(Variables{{"WORLD_SIZE", "1"}, {"RANK", "0"}});
    CHECK(world()->size() == 1);
  }
  for (const auto& [hosts, first] : Variables{{"h7", "h7"},
                                              {"h1,h2", "h1"},
                                              {"h[01-04,7],g2", "h01"},
                                              {"h[3,5]", "h3"},
                                              {"h[12]", "h12"},
                                              {"g2,h[1-4]", "g2"}}) {
    Variables slurm{{"SLURM_STEP_NUM_TASKS", "6"},
                    {"SLURM_PROCID", "5"},
                    {"SLURM_STEP_NODELIST", hosts},
                    {"SLURM_JOB_ID", "12345"}};
    {
      const Environment srun(slurm);
      CHECK(find_launcher()->name == "srun (Slurm)");
      CHECK(find_launcher()->address == first);
      CHECK(find_launcher()->port == 20'345);
    }
    slurm["MASTER_ADDR"] = "beta";
    slurm["MASTER_PORT"] = "7";
    const Environment named(slurm);
    CHECK(find_launcher()->address == "beta");
    CHECK(find_launcher()->port == 7);
  }
}

TEST_CASE("ranks that are started one by one inside a step of Slurm's are not its tasks") {
  Variables shell{{"SLURM_STEP_NUM_TASKS", "1"}, {"SLURM_PROCID", "0"}, {"PMIX_RANK", "0"},
                  {"WORLD_SIZE", "4"},           {"RANK", "2"},         {"MASTER_ADDR", "alpha"},
                  {"MASTER_PORT", "7"}};
  {
    const Environment ranks(shell);
    CHECK(find_launcher()->name == "the environment");
    CHECK(find_launcher()->rank == 2);
    CHECK(find_launcher()->port == 7);  // TCP joins them, whatever joins srun's
    CHECK(launched_rank() == 2);
  }
  shell.erase("RANK");  // a script of a job that says how many, and leaves it to srun who
  const Environment srun(shell);
  CHECK(find_launcher()->name == "srun (Slurm)");
  CHECK(launched_rank() == 0);
}

TEST_CASE("environments that make no sense are refused") {
  for (const auto& [size, rank] : Variables{
           {"2", "2"}, {"0", "0"}, {"two", "0"}, {"3", ""}, {"4", "-1"}, {"99999999999", "0"}}) {
    const Environment bad(
        Variables{{"OMPI_COMM_WORLD_SIZE", size}, {"OMPI_COMM_WORLD_RANK", rank}});
    CHECK_THROWS_AS(find_launcher(), CommError);
  }
  for (const Variables& half :
       {Variables{{"PMI_SIZE", "2"}}, Variables{{"WORLD_SIZE", "2"}},
        Variables{{"WORLD_SIZE", "2"}, {"RANK", "0"}},
        Variables{{"WORLD_SIZE", "2"}, {"RANK", "0"}, {"MASTER_ADDR", "alpha"}},
        Variables{{"WORLD_SIZE", "2"}, {"RANK", "0"}, {"MASTER_PORT", "1"}},
        Variables{{"WORLD_SIZE", "2"}, {"RANK", "0"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "0"}},
        Variables{
            {"WORLD_SIZE", "2"}, {"RANK", "0"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "70000"}},
        Variables{{"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_PROCID", "0"}}}) {
    const Environment environment(half);
    CHECK_THROWS_AS(find_launcher(), CommError);
  }
}

TEST_CASE("preflight lists the ranks") {
  const Environment none(Variables{});
  const std::string table = preflight(*world(), "cpu:1");
  CHECK(table.find("rank  host") == 0);
  CHECK(table.find("cpu:1") != std::string::npos);
}

}  // namespace

// A program under run_main that ends in the way its argument says; launch_test.sh looks at the
// result.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "distributed/comm/launch.h"

using namespace capstan;
using namespace capstan::distributed;

namespace {

int run(Communicator& c, int argc, char** argv) {
  const std::string how = argc > 1 ? argv[1] : "well";
  const bool last = c.rank() == c.size() - 1;
  const Tensor x = full({1000}, 1);
  c.all_reduce(x).wait();
  if (how == "well") {
    const std::string table = preflight(c);
    if (c.rank() == 0)
      std::printf("%sranks %d sum %g\n", table.c_str(), c.size(), x.to_vector<float>()[7]);
  } else if (how == "status") {
    return 3;
  } else if (how == "everywhere") {
    throw IoError("[read] no file 'data'");
  } else if (how == "one") {
    if (last) throw IoError("[read] no file 'data'");
    c.all_reduce(x).wait();
  } else if (how == "one-early") {  // the others are past their last call
    if (last) throw IoError("[read] no file 'data'");
  } else if (how == "together") {
    c.together("reading", [&] {
      if (last) throw IoError("[read] no file 'data'");
    });
  } else if (how == "agree") {
    c.agree("options", last ? "--rate 0.1 --epochs 2" : "--rate 0.1 --epochs 3");
  } else if (how == "differ") {
    last ? c.broadcast(x, 0, "weights").wait() : c.all_reduce(x, Reduce::sum, "bucket 0").wait();
  } else if (how == "busy") {  // the others compute and will not look for a long time
    if (last) throw IoError("[read] no file 'data'");
    std::this_thread::sleep_for(std::chrono::minutes(5));
  } else if (how == "late") {  // needs a short CAPSTAN_TIMEOUT
    if (last) std::this_thread::sleep_for(std::chrono::minutes(5));
    c.all_reduce(x, Reduce::sum, "bucket 1").wait();
  } else if (how == "stopped" || how == "stopped-first") {  // as a machine that hangs
    if (how == "stopped" ? last : c.rank() == 0) raise(SIGSTOP);
    c.all_reduce(x, Reduce::sum, "bucket 2").wait();
  } else if (how == "dies") {
    if (last) std::abort();
    c.all_reduce(x).wait();
  } else if (how == "told") {  // a signal comes from outside
    const auto part = c.split(0);
    if (c.rank() == 0) std::fputs("waiting\n", stderr);
    if (!last) part->barrier("told").wait();
    std::this_thread::sleep_for(std::chrono::minutes(1));
  } else if (how == "split") {  // an error inside a part of the ranks
    const auto part = c.split(c.rank() % 2);
    part->together("reading", [&] {
      if (last) throw IoError("[read] no file 'data'");
    });
    c.all_reduce(x).wait();
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return run_main(argc, argv, run); }

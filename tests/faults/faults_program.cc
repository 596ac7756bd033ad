// A program that makes one collective after the other until a fault ends it; see inject_faults.py.
//
//   faults_program FAULT RANK STEP: at that step, that rank commits the fault.
//   faults_program splits 0 0: all that it does is to make communicators.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "distributed/cast_hook.h"
#include "distributed/comm/launch.h"
#include "distributed/ddp.h"
#include "nn/linear.h"

using namespace capstan;
using namespace capstan::distributed;

namespace {

// Time as inject_faults.py counts it.
double now() { return std::chrono::duration<double>(Clock::now().time_since_epoch()).count(); }

int run(Communicator& c, int argc, char** argv) {
  if (argc != 4) throw ValueError("[faults] usage: faults_program FAULT RANK STEP");
  const std::string fault = argv[1];
  const bool culprit = c.rank() == std::atoi(argv[2]);
  const int step_of_fault = std::atoi(argv[3]);
  const Tensor gradients = c.shared_zeros({300'000}), loss = zeros({1});
  for (int step = 0;; ++step) {
    const bool here = step == step_of_fault, now_and_here = here && culprit;
    const auto is = [&](const char* name) { return now_and_here && fault == name; };
    if (now_and_here && fault != "none" && fault != "splits") {
      std::printf("fault at %.6f\n", now());
      std::fflush(stdout);
    }
    if (is("throw")) throw IoError("[faults] the disk is full");
    if (is("exit")) std::_Exit(7);
    if (is("leave")) return 0;
    if (is("algorithm")) c.set_all_reduce(Algorithm::ring);
    if (here && fault == "hook") {
      nn::Linear model{3, 4};
      const Ddp ddp(model, c, {.hook = culprit ? sum_in(Dtype::bfloat16) : nullptr});
    }
    if (step > 0 && fault == "splits") {
      c.split(0);
      continue;
    }
    const Work reduced = c.all_reduce(gradients, Reduce::sum, "bucket " + std::to_string(step));
    if (is("shape")) c.all_reduce(zeros({2}), Reduce::sum, "loss");
    if (is("dtype")) c.all_reduce(zeros({1}, {.dtype = Dtype::int64}), Reduce::sum, "loss");
    if (is("call")) c.broadcast(loss, 0, "loss");
    c.all_reduce(loss, Reduce::sum, "loss").wait();
    reduced.wait();
    const std::string text = c.broadcast_string("go on", 0, "decision");
    if (step % 10 == 0) c.barrier("breath").wait();
    if (step == 0 && c.rank() == 0) {
      std::puts("running");
      std::fflush(stdout);
    }
  }
}

}  // namespace

int main(int argc, char** argv) { return run_main(argc, argv, run); }

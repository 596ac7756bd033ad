// A program that makes one collective after the other until a fault ends it; see inject_faults.py.
//
//   faults_program FAULT RANK STEP: at that step, that rank commits the fault.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "distributed/comm/launch.h"

using namespace capstan;
using namespace capstan::distributed;

namespace {

int run(Communicator& c, int argc, char** argv) {
  if (argc != 4) throw ValueError("[faults] usage: faults_program FAULT RANK STEP");
  const std::string fault = argv[1];
  const bool culprit = c.rank() == std::atoi(argv[2]);
  const int step_of_fault = std::atoi(argv[3]);
  const Tensor gradients = c.shared_zeros({300'000}), loss = zeros({1});
  for (int step = 0;; ++step) {
    const bool now = culprit && step == step_of_fault;
    if (now && fault == "throw") throw IoError("[faults] the disk is full");
    if (now && fault == "exit") std::_Exit(7);
    if (now && fault == "leave") return 0;
    const Work reduced = c.all_reduce(gradients, Reduce::sum, "bucket " + std::to_string(step));
    if (now && fault == "shape") c.all_reduce(zeros({2}), Reduce::sum, "loss");
    if (now && fault == "call") c.broadcast(loss, 0, "loss");
    c.all_reduce(loss, Reduce::sum, "loss").wait();
    reduced.wait();
    const std::string text = c.broadcast_string("go on", 0, "decision");
    if (step % 10 == 0) c.barrier("breath").wait();
  }
}

}  // namespace

int main(int argc, char** argv) { return run_main(argc, argv, run); }

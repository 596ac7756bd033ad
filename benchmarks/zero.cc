// What ZeRO's stages save: a GPT on ranks of threads, each on a device of its own, whose allocator
// counts what tensors hold at most in a step; beside it the formula
// (distributed/fsdp/zero_memory.h), and the bytes that a rank sends.
//
//   zero [layers] [width]    a table of 1, 2 and 4 ranks x stages 0 to 3
#include <fmt/format.h>

#include <cstdlib>

#include "autograd/softmax.h"
#include "autograd/views.h"
#include "core/random.h"
#include "distributed/comm/thread.h"
#include "distributed/ddp.h"
#include "distributed/fsdp/fsdp.h"
#include "distributed/fsdp/zero_memory.h"
#include "models/gpt.h"
#include "optim/adamw.h"

namespace {

using namespace capstan;
using namespace capstan::distributed;

struct Measured {
  double peak = 0, states = 0, pass = 0;  // bytes on rank 0
  int64_t sent = 0;
};

Measured measure(Communicator& c, int stage, const models::GptShape& shape) {
  const Device device = Device::cpu(1 + c.rank());
  Allocator& memory = allocator(device);
  const int64_t before = memory.stats().current;
  manual_seed(1);
  models::Gpt model(shape);
  model.to(device);
  Measured measured;
  measured.states = zero_memory(model.parameter_count(), c.size(), stage).total();
  std::unique_ptr<GradientPath> path;
  Fsdp* fsdp = nullptr;
  // (By size, gradients of Ddp are counted if they are not shared.)
  if (stage == 0) {
    path = std::make_unique<Ddp>(model, c);
  } else {
    auto made = std::make_unique<Fsdp>(model, c, FsdpOptions{.stage = stage});
    fsdp = made.get();
    path = std::move(made);
    measured.pass = static_cast<double>(pass_memory(*fsdp, stage));
  }
  optim::AdamW adamw(path->parameters());
  const int64_t batch = 2;
  const Tensor drawn = randint({batch, shape.context}, 0, shape.vocabulary);
  const Tensor tokens = empty(drawn.shape(), {Dtype::int64, device});
  copy_elements(drawn, tokens);
  const auto step = [&] {
    const Tensor logits = model(tokens);
    const Tensor flat = reshape(logits, {batch * shape.context, shape.vocabulary});
    path->backward(cross_entropy(flat, reshape(tokens, {batch * shape.context})), 1);
    adamw.step(1e-3);
    path->after_step();
    adamw.zero_grad();
  };
  step();
  step();
  const auto sent = [&] { return c.traffic().bytes_sent + (fsdp ? fsdp->bytes_sent() : 0); };
  const int64_t sent_before = sent();
  memory.reset_peak();
  step();
  measured.sent = sent() - sent_before;
  measured.peak = static_cast<double>(memory.stats().peak - before);
  c.barrier().wait();
  return measured;
}

}  // namespace

int main(int argc, char** argv) {
  models::GptShape shape{.vocabulary = 256, .context = 64, .layers = 8, .heads = 4, .width = 256};
  if (argc > 1) shape.layers = std::atoi(argv[1]);
  if (argc > 2) shape.width = std::atoi(argv[2]);
  fmt::print("{:>5} {:>5} {:>12} {:>12} {:>12} {:>9} {:>12}\n", "ranks", "stage", "peak, MB",
             "formula, MB", "of states", "peak over", "sent, MB");
  double activations = 0;  // what one rank without sharing holds beside its states
  for (int ranks : {1, 2, 4}) {
    for (int stage : {0, 1, 2, 3}) {
      Measured m;
      const auto run = [&](Communicator& c) {
        const Measured mine = measure(c, stage, shape);
        if (c.rank() == 0) m = mine;
      };
      // As if on hosts of their own, where gradients of Ddp lie in memory that allocators count.
      run_ranks(ranks, run, {.share_memory = false});
      if (ranks == 1 && stage == 0) activations = m.peak - m.states;
      const double formula = m.states + m.pass + activations;
      fmt::print("{:>5} {:>5} {:>12.2f} {:>12.2f} {:>12.2f} {:>8.1f}% {:>12.3f}\n", ranks, stage,
                 m.peak / 1e6, formula / 1e6, m.states / 1e6, 100 * (m.peak / formula - 1),
                 static_cast<double>(m.sent) / 1e6);
    }
  }
}

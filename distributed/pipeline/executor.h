// Defines Executor, which carries out one stage's list of a schedule.
//
// Each instruction is a few lines of executor.cc: what it takes, what it keeps, what it drops. What
// is kept of a microbatch in a chunk, from its forward pass to free_all, is a Live. The executor
// knows nothing of how a model was cut or of other stages' parts; it has the chunks of this stage,
// the queues to its neighbours (link.h), and the gradient path of each chunk.
//
// Backward begins at the output's gradient, which came from the next stage, and the tape: not at
// the output's elements. Those are dropped as soon as they are sent (free_output), unless the tape
// has saved them for a formula.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>

#include "autograd/engine.h"
#include "distributed/gradient_path.h"
#include "distributed/pipeline/chunk.h"
#include "distributed/pipeline/link.h"
#include "distributed/pipeline/microbatch.h"
#include "distributed/pipeline/simulate.h"
#include "distributed/pipeline/trace.h"

namespace capstan::distributed::pipeline {

/// The mean loss of a microbatch, of one element, from what the last layer gave and the targets.
using Loss = std::function<Tensor(const Tensors& outputs, const Tensors& targets)>;

/// One of this stage's chunks, and how its gradients become those of all ranks that have it; null
/// where nothing is trained.
struct Part {
  std::unique_ptr<Chunk> chunk;
  std::unique_ptr<GradientPath> path;
};

/// This stage's ends of links; null where there is none.
struct Links {
  using Kinds = std::map<std::pair<Kind, Ends>, std::unique_ptr<Link>>;
  Kinds neighbours = {};  // by what sends: send_output or send_gradient
  std::map<std::pair<std::string, int>, std::unique_ptr<Link>> ties = {};  // by name and borrower
};

/// A run of a schedule over microbatches.
struct Run {
  const Schedule& schedule;
  std::span<const Microbatch> microbatches;
  std::vector<const Trace*> traces;  // of each
  /// Gradients of borrowed parameters go to their owner with each microbatch, or with the last.
  bool ties_each_microbatch = true;
};

class Executor {
 public:
  Executor(int stage, std::vector<Part>& parts, Links& links, Loss loss)
      : stage_(stage), parts_(parts), links_(links), loss_(std::move(loss)) {}

  void run(const Run& run);

  /// Of the last run: what the last chunk gave each microbatch, where it is here and there was no
  /// training; when the passes ran, in seconds; and the most pairs of chunk and microbatch that
  /// were kept at once.
  std::vector<Tensors>& outputs() { return outputs_; }
  const std::vector<Span>& spans() const { return spans_; }
  int peak_live() const { return peak_live_; }

 private:
  struct Live {
    Tensors inputs, first, outputs;
    Tensors seeds;      // gradients of the outputs, from the next chunk
    Tensors gradients;  // of the inputs, for the chunk before
    double loss = 0;
    std::optional<SplitBackward> rest;  // the weight half
  };

  void expect_messages();
  void carry_out(const Instruction& i);
  void pass(const Instruction& i);
  void forward(const Instruction& i, Live& live);
  void backward(const Instruction& i, Live& live);
  void backward_input(const Instruction& i, Live& live);
  void backward_weight(const Instruction& i, Live& live);
  void run_path(const Instruction& i, const std::function<void()>& walk);

  struct Roots {
    Tensors tensors, seeds;
  };
  Roots roots(const Instruction& i, Live& live) const;
  void add_owned(const Instruction& i, Roots& roots);
  void send_borrowed(const Instruction& i, Tensors gradients);
  bool ties_travel(const Instruction& i) const;

  Part& part(const Instruction& i) { return parts_[i.chunk / run_->schedule.stages]; }
  Link& link(const Instruction& transfer);
  const Microbatch& microbatch(const Instruction& i) const {
    return run_->microbatches[i.microbatch];
  }
  const std::vector<Crossing>& into(int chunk, const Instruction& i) const {
    return run_->traces[i.microbatch]->into[chunk];
  }

  const int stage_;
  std::vector<Part>& parts_;
  Links& links_;
  const Loss loss_;

  const Run* run_ = nullptr;
  std::map<std::pair<int, int>, Live> live_;  // by chunk and microbatch
  std::vector<Tensors> outputs_;
  std::vector<Span> spans_;
  int kept_ = 0, peak_live_ = 0;
  std::chrono::steady_clock::time_point begin_;
};

}  // namespace capstan::distributed::pipeline

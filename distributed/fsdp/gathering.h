// Defines Gathering: when the units of a model get their parameters, and when they give them back
// (ZeRO stage 3).
//
// In forward a unit is gathered when its module is called, and released when the call returns. What
// the call put on the tape keeps handles to released parameters, so they must be back before
// backward comes to it. The tape runs strictly from new to old (autograd/engine.h), and each node
// has a number that rises. So with the numbers between which a call's nodes lie,
//
//   call of unit u:  (first, last]     `last` is the node of the call's result
//
// u is needed when the gradient of the result is there, which a hook on it tells, and not any more
// once any node up to `first` runs: that is, when the hook of a call with last' <= first does. This
// holds for units that contain units, for modules called twice, and for frozen parameters, which
// have no gradient that could tell.
//
//   forward    u0 |---------------------------|       u0, the root, contains the others
//              u1    |------|
//              u2             |------|                u2 is on its way while u1 computes
//   backward   u0 |----------------------------|
//              u2  |-------|                          u1 is on its way while u2 computes
//              u1           |--------|
//
// A unit may leave more than a shard behind when forward releases it (`near`): the first gather of
// a pass is then among all ranks, and those after it among a few.
//
// Prefetch: what was needed next last time is fetched as soon as a unit is there, so that it
// travels while the unit computes. At most two units, beside those around them, have memory at a
// time. It is the same memory again and again: the allocator keeps what a unit gives back for the
// next request of its size class (core/allocator.h), so that there is no need of an arena here. The
// first step asks the system for what two units need, and no later one for anything.
//
// In a pipeline, passes of several microbatches take turns, on ranks whose microbatches may have no
// data, and each would gather all units anew. There hold_all() gathers every unit once, in one
// order on all ranks, and none is released until the last microbatch is done:
//
//   a step of a stage with weights of W bytes, m microbatches, on n ranks
//                     sends, with the sums of gradients      weights in memory in a run, and after
//   stage 2                   2 W (n - 1) / n                    W             W
//   stage 3, held             2 W (n - 1) / n                    W + W / n     W / n
//   stage 3, not held   (2 m + 1) W (n - 1) / n                  units         W / n
//
// So beside a pipeline stage 3 has the traffic of stage 2 and, while a step runs, its memory, and
// the shards beside. (PyTorch's FSDP is used in pipelines likewise, without resharding; the last
// row would make sums of gradients in every microbatch, too, since whole ones would take W again.)
//
// All gathers go through a communicator of their own, so their order is that of the units alone,
// whatever the gradients do. A rank without data makes the gathers that passes with data make:
// those of its last pass, or, before it had one, those of units that run in the model's order.
#pragma once

#include <memory>
#include <vector>

#include "distributed/fsdp/flat_parameter.h"
#include "distributed/overlap_meter.h"
#include "nn/module.h"

namespace capstan::distributed {

/// A part of a model that is gathered at a time.
struct Unit {
  std::string name;
  nn::Module* module;
  std::vector<std::unique_ptr<FlatParameter>> flats;  // one for each dtype, trained or frozen
};

struct GatheringOptions {
  bool release_after_forward = true;  // else a unit stays from forward to its backward
  /// Among whom what is released then stays shared out, until backward gathers it from them alone;
  /// null: it is gathered from all again.
  Communicator* near = nullptr;
  bool prefetch = true;
};

class Gathering {
 public:
  /// Puts hooks on the modules of the units and on `model`, which must outlive this.
  Gathering(nn::Module& model, std::vector<Unit>& units, Communicator& ranks,
            GatheringOptions options);

  /// Makes the gathers of a forward and a backward pass for the ranks that have data.
  void pass_without_data();
  /// Gives back what is left when a backward pass has ended.
  void pass_ends();
  /// Sees to it that weights of before a step are not used after it. A collective.
  void weights_changed();

  /// Begins to gather all units, and releases none until as many calls of let_go(). A unit is there
  /// when its module is called, or arrive() returns.
  void hold_all();
  void arrive(int unit);
  void arrive_all();
  void let_go();
  bool holds_all() const { return held_ > 0; }

  const Overlap& overlap() const { return meter_.total(); }

 private:
  enum Direction { forward, backward };
  struct State {
    std::vector<Work> coming;     // gathers that were not waited for
    std::vector<uint64_t> calls;  // `first` of the calls that run
    uint64_t first = 0;           // of the call whose backward runs; 0 if none does
    int next[2] = {-1, -1};       // by direction: the unit that was needed next last time
  };
  struct Gather {
    int unit;
    bool near;
  };
  struct TapeHook {
    HookHandle handle;
    std::shared_ptr<bool> done;
  };

  void enter(int unit);
  void leave(int unit, std::span<const Tensor> outputs);
  void before_backward(int unit, uint64_t first, uint64_t last);
  void need(int unit, Direction direction);
  void fetch(int unit, bool of_a_pass);
  void release(int unit, bool keep = false);
  void forget_kept();
  std::vector<Gather> order_of_the_model() const;

  std::vector<Unit>& units_;
  Communicator& ranks_;
  const GatheringOptions options_;
  std::vector<State> states_;   // by unit
  int previous_[2] = {-1, -1};  // by direction: the unit that was needed last
  int held_ = 0;
  std::vector<Gather> gathers_, last_gathers_;  // of this pass and of the one before
  OverlapMeter meter_;
  std::vector<HookHandle> hooks_;
  std::vector<TapeHook> tape_hooks_;
};

}  // namespace capstan::distributed

// Defines ReducedPath, what Ddp and Fsdp (fsdp/) have in common: the window.
//
// Backward hooks on the leaves tell when a gradient is there; a Reducer makes sums of them. Between
// the two stands the window, and all that can go wrong in it: passes that accumulate, passes that
// are virtual shards, parameters that a loss does not use, gradients that somebody forgot to clear
// or that came past the strategy, ranks without data.
//
// Gradients gather in the leaves of the model. The optimizer may step other tensors than these:
// Fsdp gives it this rank's part of each. So a window is over when those are cleared, and they are
// what refuses to be stepped on before it is reduced.
#pragma once

#include <memory>

#include "autograd/engine.h"
#include "distributed/averaged_buffers.h"
#include "distributed/gradient_path.h"
#include "distributed/reducer.h"

namespace capstan::distributed {

/// What happens to a parameter that a window's loss does not depend on.
enum class Unused {
  error,      // GradientError naming it
  zero_fill,  // its gradient is 0
  skip,       // it has no gradient if no rank used it, so that step() leaves it alone; else as 0
};

class ReducedPath : public GradientPath {
 public:
  const NamedTensors& parameters() const override { return parameters_; }

  /// At the end of a window, averaged buffers are the mean of all ranks'. Throws GradientError for
  /// a gradient left from the window before, or that came past this strategy, for unused
  /// parameters, for more or fewer passes than there are virtual shards, and as check_nan says.
  void pass(const std::function<void()>& run, const Share& share, Sync sync) override;
  void backward_without_data(Sync sync = Sync::yes) override;

  Share last() const override { return last_; }
  std::vector<int> order() const override;

  const Reducer& reducer() const { return *reducer_; }
  const Overlap& overlap() const override { return reducer_->overlap(); }

 protected:
  struct Window {
    NamedTensors leaves;          // of the model, which get gradients from backward
    std::vector<Tensor> stepped;  // for each, what the optimizer steps: the same, or a part of it
    NamedTensors apart = {};      // leaves whose gradients stay this rank's own
    NamedTensors summed = {};     // leaves that get sums over all ranks from backward
    Unused unused = Unused::error;
    bool reduce_each_pass = false;  // else the last one of a window reduces what all left
    ReducerOptions reducer;
  };

  explicit ReducedPath(Communicator& communicator) : communicator_(communicator) {}

  /// The second half of a strategy's constructor. `parameters` are what the optimizer steps.
  void open(NamedTensors parameters, Window window, std::unique_ptr<AveragedBuffers> buffers);

  Communicator& communicator_;
  std::unique_ptr<Reducer> reducer_;

 private:
  enum class Pass { none, accumulating, reducing };

  // What a strategy does besides.
  virtual void window_begins() {}
  /// Calls `reduce`, beside what passes with data communicate.
  virtual void pass_without_data(const std::function<void()>& reduce) { reduce(); }
  virtual void pass_ends() {}  // that had data, well or not
  virtual void gradients_are_there() {}
  virtual void window_ends() {}

  void begin_window_if_new();
  void check_pass(Sync sync) const;
  void fold_shard();
  void expect_more();
  bool reduces(Sync sync) const { return sync == Sync::yes || window_.reduce_each_pass; }
  void start_reduction(const BackwardPass* pass, Sync sync);
  void finish_reduction(bool had_data, Sync sync);
  void mark_ready(size_t parameter);
  void skip_unused();

  NamedTensors parameters_;
  Window window_;
  std::unique_ptr<AveragedBuffers> averaged_;
  std::vector<HookHandle> hooks_;

  Pass pass_ = Pass::none;
  bool reduced_ = false;           // the gradients are those of a window that has ended
  bool bypassed_ = false;          // a gradient came that pass() here did not ask for
  bool planned_ = false;           // buckets follow the true order
  Share share_;                    // of this rank, of what was not summed yet
  double own_weight_ = 0;          // of this rank in this window
  std::vector<bool> used_before_;  // by leaf: had a gradient in this window that is summed already
  std::vector<bool> ready_;        // by leaf: marked so in this reduction
  Tensor used_;                    // with Unused::skip, by leaf: 1 if this rank, then any, used it
  Work used_work_;
  Share last_;
};

}  // namespace capstan::distributed

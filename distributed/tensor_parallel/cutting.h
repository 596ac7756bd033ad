// Defines Cutting, what a plan makes of a model: worked out and checked first, then carried out.
// For TensorParallel, which explains it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "core/recipe.h"
#include "distributed/comm/communicator.h"
#include "distributed/tensor_parallel/plan.h"
#include "nn/attention.h"
#include "nn/embedding.h"
#include "nn/layers.h"
#include "nn/linear.h"

namespace capstan::distributed {

/// Which slice of a parameter a rank has: all of it, or `count` indices of an axis from `first` on.
struct ParameterSlice {
  Shape whole;
  std::optional<int> axis = {};
  int64_t first = 0, count = 0;

  bool operator==(const ParameterSlice&) const = default;
};

/// Those indices of a tensor, as a tensor of its own; on meta without numbers, unless a recipe
/// records.
Tensor cut_out(const Tensor& whole, const ParameterSlice& slice);

/// Plan and model in words: what all ranks must have alike.
std::string describe(nn::Module& model, const TensorPlan& plan);

class Cutting {
 public:
  /// Throws ValueError as TensorParallel does. Nothing is changed yet.
  Cutting(nn::Module& model, const TensorPlan& plan, Communicator& ranks);

  /// By each name of each parameter.
  const std::map<std::string, ParameterSlice>& slices() const { return slices_; }
  /// The classes of each Linear whose logits are cut.
  const std::map<std::string, int64_t>& classes() const { return classes_; }

  /// Cuts the parameters and adds the hooks. A recipe of the model gets to know the slices.
  std::vector<HookHandle> carry_out(Recipe* recipe);

 private:
  using Replace = std::function<Tensor(const Tensor&)>;
  enum class Parts { equal, any };

  void apply(const TensorRule& rule);
  void apply(const TensorRule& rule, const std::string& name, nn::Module& module);
  void column(nn::Linear& linear, const std::string& name, Parts parts);
  void row(nn::Linear& linear, const std::string& name);
  void feed_forward(nn::Module& module, const std::string& name);
  void heads(nn::MultiheadAttention& attention, const std::string& name);
  void vocabulary(nn::Module& module, const std::string& name, bool joined);
  void sequence(nn::Module& module, const std::string& name, Cut cut);

  void cut(const std::string& name, const Tensor& parameter, int axis, Parts parts);
  void replace(HookList<Tensor(const Tensor&)>& list, Replace f);
  void enter(nn::Module& module, const std::string& name);
  void leave(nn::Linear& linear, const std::string& name);
  void join(nn::Linear& linear, const std::string& name);
  AxisPart own(int axis) const { return {axis, ranks_.rank(), ranks_.size()}; }
  void drop_parts(nn::Module& module, std::shared_ptr<const AxisParts> parts);

  void resolve();
  void cut_parameters();
  void sum_partial_gradients();

  nn::Module& model_;
  const bool sequence_;
  Communicator& ranks_;
  std::map<std::string, std::string> ruled_;  // module -> the pattern of its rule
  std::map<std::string, int> axes_;           // parameter that is cut -> along which axis
  std::set<std::string> partial_;             // parameters used on parts of the sequence
  std::map<std::string, ParameterSlice> slices_;
  std::map<std::string, int64_t> classes_;
  std::vector<std::function<void()>> changes_;  // to modules
  std::vector<HookHandle> hooks_;
};

}  // namespace capstan::distributed

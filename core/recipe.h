// Defines Recipe, which makes tensors that have no elements yet, and knows how to make these later.
//
// A model too large for one device cannot be constructed there and cut up afterwards. On meta it
// takes no memory, but then its numbers are lost. A recipe keeps, in place of them, the kernels
// that would have made them: each random number depends on a seed and a place in a stream alone
// (core/random.h), so that those of any one tensor can be drawn at any time, and are the same.
//
//   Recipe recipe;
//   Gpt model = recipe.record([&] { return Gpt(shape); });   // on meta; the generator moves on
//   for (const auto& [name, parameter] : model.parameters())
//     keep_a_part_of(recipe.make(parameter));                // whole, one at a time
//
// It follows the kernels with which weights are initialised: fill, copy, uniform and normal random
// numbers, sums and products of elements. Anything else while recording is an error.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/tensor.h"

namespace capstan {

class Recipe {
 public:
  /// The result of f(), which runs with meta in place of every CPU. Throws ValueError for a kernel
  /// that cannot be repeated and for numbers that come from elsewhere, DeviceError where f looks at
  /// elements.
  template <class F>
  auto record(F&& f) {
    const Recording recording(*this);
    return f();
  }

  /// A tensor like `recorded`, dense, with the elements that it would have had. Takes memory for it
  /// and for what it was made from. Throws ValueError for a tensor that was not made in record().
  Tensor make(const Tensor& recorded, Device device = {}) const;

  /// All steps as text: the same on two ranks if and only if the numbers are.
  std::string text() const;

  // For kernels.

  /// The recipe that records on this thread, or null.
  static Recipe* recording();
  /// Does again what a kernel did: on `reads` and `writes` as they are then.
  using Kernel = std::function<void(const std::vector<Tensor>& reads, const Tensor& writes)>;
  void add(std::string what, const std::vector<Tensor>& reads, const Tensor& writes, Kernel kernel);

 private:
  struct Step {
    std::string what;
    std::vector<Tensor> reads;
    Tensor writes;
    Kernel kernel;
  };
  /// Makes a recipe the recording one while it lives.
  class Recording {
   public:
    explicit Recording(Recipe& recipe);
    ~Recording();
    Recording(const Recording&) = delete;
    Recording& operator=(const Recording&) = delete;

   private:
    Recipe* before_;
  };

  std::vector<Step> steps_;
};

}  // namespace capstan

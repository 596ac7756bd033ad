// Defines Chunk, a part of a model that one stage has: some of its layers, one after another, as a
// module of their own; and Deal, which layers and parameters belong to which chunk.
//
// A chunk names its parameters as the whole model does ("blocks.2.norm.weight"), so strategies,
// optimizers and checkpoints work on it as on a model.
//
// Tied parameters. A parameter that layers of several chunks use (a table of tokens that is also
// the last layer's weight) belongs to the first of them, its owner; the others borrow it. A
// borrower computes with a copy, of which strategies and optimizers see nothing: it sends the owner
// the copy's gradient, which the owner adds to its own before they see that, and gets the new
// numbers after each step. So there is one state of the optimizer, one part in the gradient's norm,
// one entry in checkpoints, and the copies cannot drift apart.
#pragma once

#include <set>

#include "core/recipe.h"
#include "distributed/pipeline/cut.h"
#include "nn/chain.h"

namespace capstan::distributed::pipeline {

using nn::Tensors;

/// A parameter that the chunks `owner` and `borrower` both use.
struct Tie {
  std::string name;  // the model's first one for it
  int owner, borrower;
  Tensor parameter;
};

/// How a chain's layers and all that belongs to them are dealt out to chunks, and these to stages.
struct Deal {
  struct Member {
    std::string name;  // in the model
    nn::Module* module;
  };
  std::vector<nn::Layers> layers;            // of each chunk
  std::vector<std::vector<Member>> members;  // of each chunk: the modules of its layers
  std::vector<Tie> ties;                     // of one parameter: the last borrower first
};

/// Throws ValueError, naming what is wrong: a layer whose module is not the model's, a parameter or
/// buffer that no layer uses, a buffer of several chunks, a parameter of several chunks of one
/// stage.
Deal deal(const nn::Chain& chain, const Cut& cut, int stages);

class Chunk : public nn::Module {
 public:
  /// Chunk number `number` of the deal.
  Chunk(const Deal& deal, int number);

  int number() const { return number_; }
  /// "chunk 2 (blocks.3 to head)"
  std::string describe() const;

  /// Runs the layers. `first`, if any, gets what the first of them gave.
  Tensors operator()(const Tensors& inputs, Tensors* first = nullptr);

  const char* type_name() const override { return "Chunk"; }
  /// All but what it borrows. A module that has something borrowed shows its other members in its
  /// own place.
  void visit_members(nn::MemberVisitor& visitor) override;

  /// Those that it owns, and those that it borrows.
  const std::vector<Tie>& owned() const { return owned_; }
  const std::vector<Tie>& borrowed() const { return borrowed_; }
  /// Makes the numbers of all that it has, and memory for what it borrows.
  void materialize(const Recipe& recipe);
  /// Looks for the owned ones again: a strategy may have given the model other tensors.
  void find_owned();

 private:
  const int number_;
  nn::Layers layers_;
  std::vector<Deal::Member> members_;
  std::vector<Tie> owned_, borrowed_;
};

/// Moves to meta what only other stages use.
void release_others(const Deal& deal, int stage, int stages);

}  // namespace capstan::distributed::pipeline

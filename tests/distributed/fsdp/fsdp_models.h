// Defines what the tests of sharded training share: a model with units, its training, and hashes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "autograd/checkpoint.h"
#include "autograd/elementwise.h"
#include "autograd/softmax.h"
#include "core/random.h"
#include "core/sha256.h"
#include "distributed/comm/thread.h"
#include "distributed/ddp.h"
#include "distributed/fsdp/fsdp.h"
#include "nn/linear.h"
#include "optim/adamw.h"

namespace capstan::distributed::testing {

/// Two layers of odd sizes, added to what came in.
struct Block : nn::Module {
  nn::Linear up{9, 17}, down{17, 9};
  CAPSTAN_MODULE(Block, up, down)
  Tensor forward(const Tensor& x) { return x + down(relu(up(x))); }
};

/// Three blocks between two layers that belong to the root.
struct Tower : nn::Module {
  nn::Linear in{7, 9};
  nn::ModuleList<Block> blocks{3};
  nn::Linear out{9, 5};
  CAPSTAN_MODULE(Tower, in, blocks, out)
  Tensor forward(const Tensor& x) {
    Tensor y = in(x);
    for (Block& block : blocks) y = block(y);
    return out(y);
  }
};

/// A unit whose first layer is frozen, one whose layer runs twice, and one that recomputes.
struct Odd : nn::Module {
  nn::Linear in{7, 9};
  nn::ModuleList<Block> blocks{3};
  nn::Linear out{9, 5};
  CAPSTAN_MODULE(Odd, in, blocks, out)
  Odd() {
    require_grad(blocks[0].up.weight, false);
    require_grad(blocks[2].up.weight, false);
    require_grad(*blocks[2].down.bias, false);
    nn::tie(*blocks[0].down.bias, *blocks[1].down.bias);
  }
  Tensor forward(const Tensor& x) {
    Tensor y = blocks[0](in(x));
    y = blocks[1](blocks[1](y));
    y = checkpoint([&](const Tensor& z) { return blocks[2](z); }, y);
    return out(blocks[0](y));
  }
};

inline void add_to(Sha256& hash, const Tensor& tensor) {
  const std::vector<double> values = tensor.to_vector<double>();
  hash.update(std::as_bytes(std::span(values)));
}

/// Of all parameters, whole.
inline std::string hash_of(nn::Module& model) {
  Sha256 hash;
  for (const auto& [_, parameter] : model.parameters()) add_to(hash, parameter);
  return hash.hex();
}

/// A strategy by ZeRO's stage; 0 is Ddp.
inline std::unique_ptr<GradientPath> strategy(nn::Module& model, Communicator& c, int stage,
                                              FsdpOptions options = {}) {
  if (stage == 0) {
    return std::make_unique<Ddp>(
        model, c, DdpOptions{.unused = options.unused, .virtual_shards = options.virtual_shards});
  }
  options.stage = stage;
  return std::make_unique<Fsdp>(model, c, options);
}

/// hash_of() under any strategy. A collective.
inline std::string hash_of(nn::Module& model, GradientPath& path) {
  if (auto* const fsdp = dynamic_cast<Fsdp*>(&path)) {
    const auto full = fsdp->full_parameters();
    return hash_of(model);
  }
  return hash_of(model);
}

/// Inputs [count, 7] and labels of one virtual shard of one step.
struct Samples {
  Tensor x, y;
};
inline Samples samples(int64_t step, int64_t shard, int64_t count, int64_t width = 7,
                       int64_t classes = 5) {
  Generator generator(1000 * step + shard + 1);
  return {randn({count, width}, 0, 1, {}, generator),
          randint({count}, 0, classes, {.dtype = Dtype::int64}, generator)};
}

}  // namespace capstan::distributed::testing

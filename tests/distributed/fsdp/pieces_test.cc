// Pieces: the ranges that ranks own, together, are each tensor once, and hold its numbers.
#include "distributed/pieces.h"

#include <doctest/doctest.h>

#include "core/error.h"
#include "tests/distributed/fsdp/fsdp_models.h"

namespace capstan::distributed::testing {
namespace {

/// All of each tensor from the pieces of all ranks: the other ranks' elements count 0.
void check_together(Communicator& c, const Pieces& pieces, const NamedTensors& expected) {
  std::map<std::string, const Piece*> own;
  for (const Piece& piece : pieces) {
    check(piece);
    own[piece.name] = &piece;
  }
  for (const auto& [name, tensor] : expected) {
    CAPTURE(name);
    const Piece all = whole(name, zeros(tensor.shape(), {.dtype = tensor.dtype()}));
    const Tensor count = zeros({}, {.dtype = Dtype::int64});
    if (const auto found = own.find(name); found != own.end())
      fill_elements(count, static_cast<double>(copy_overlap(*found->second, all)));
    c.all_reduce(all.values).wait();
    c.all_reduce(count).wait();
    CHECK(count.item<int64_t>() == tensor.numel());
    CHECK(all.values.to_vector<double>() == tensor.to_vector<double>());
  }
}

TEST_CASE("parameters and the optimizer's state, beside those of Ddp") {
  for (int ranks : {1, 2, 4}) {
    for (int stage : {1, 2, 3}) {
      run_ranks(ranks, [&](Communicator& c) {
        manual_seed(1);
        Tower model, twin = model.clone();
        Fsdp fsdp(model, c, {.stage = stage, .virtual_shards = ranks});
        Ddp ddp(twin, c, {.virtual_shards = ranks});
        optim::AdamW sharded(fsdp.parameters()), whole_one(twin.parameters());
        const Samples s = samples(0, c.rank(), 3);
        fsdp.backward(cross_entropy(model(s.x), s.y), 3);
        ddp.backward(cross_entropy(twin(s.x), s.y), 3);
        sharded.step(0.01);
        whole_one.step(0.01);
        check_together(c, pieces_of(fsdp, model), twin.parameters());

        const Pieces state = pieces_of(fsdp, sharded.state());
        NamedTensors moments;
        int64_t counts = 0;
        for (const auto& [name, value] : whole_one.state()) {
          if (value.rank() > 0) moments.emplace_back(name, value);
        }
        for (const Piece& piece : state) counts += piece.region.global.rank() == 0;
        CHECK(counts == std::ssize(model.parameters()));
        check_together(c, state, moments);
      });
    }
  }
}

TEST_CASE("state of no parameter, and state that is not cut as its parameter") {
  run_ranks(2, [](Communicator& c) {
    Tower model;
    const Fsdp fsdp(model, c, {.stage = 1});
    CHECK_THROWS_WITH_AS(pieces_of(fsdp, {{"in.scale.momentum", zeros({3})}}),
                         "[pieces_of] 'in.scale.momentum' is of no parameter", ValueError);
    CHECK_THROWS_WITH_AS(pieces_of(fsdp, {{"in.weight.rows", zeros({9, 1})}}),
                         doctest::Contains("does not work element by element"), ShapeError);
  });
}

}  // namespace
}  // namespace capstan::distributed::testing

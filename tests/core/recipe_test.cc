// Recipe: what is made later is what would have been made at once.
#include "core/recipe.h"

#include <doctest/doctest.h>

#include "core/error.h"
#include "core/random.h"

namespace capstan {
namespace {

/// Tensors that start in all ways that a recipe follows.
std::vector<Tensor> start() {
  std::vector<Tensor> made;
  made.push_back(rand({3, 5}, -1, 2));
  made.push_back(randn({7}, 1, 0.5, {.dtype = Dtype::float64}));
  made.push_back(ones({4, 2}));
  // Written over, in part and all.
  const Tensor table = randn({6, 3});
  fill_elements(view_of(table, table.layout().selected(0, 2)), 0);
  scale_elements(table, 0.25);
  made.push_back(table);
  const Tensor other = rand({5, 3});
  copy_elements(randn({5, 3}, 0, 0.02), other);
  made.push_back(other);
  // Another dtype, and a view.
  const Tensor half = empty({6, 3}, {.dtype = Dtype::bfloat16});
  copy_elements(table, half);
  made.push_back(half);
  made.push_back(view_of(table, table.layout().transposed(0, 1)));
  return made;
}

TEST_CASE("every tensor has the numbers that it would have had, in any order") {
  manual_seed(9);
  const std::vector<Tensor> expected = start();
  const Generator after = default_generator();
  manual_seed(9);
  Recipe recipe;
  const std::vector<Tensor> later = recipe.record(start);
  CHECK(default_generator() == after);
  for (size_t i = later.size(); i-- > 0;) {
    CHECK(later[i].device() == Device::meta());
    const Tensor made = recipe.make(later[i], Device::cpu(1));
    CHECK(made.device() == Device::cpu(1));
    CHECK(made.dtype() == expected[i].dtype());
    CHECK(made.shape() == expected[i].shape());
    CHECK(made.to_vector<double>() == expected[i].to_vector<double>());
  }
  CHECK(ones({2}).device() == Device::cpu());  // it records no more
}

TEST_CASE("text tells recipes apart") {
  const auto text = [](uint64_t seed) {
    manual_seed(seed);
    Recipe recipe;
    recipe.record(start);
    return recipe.text();
  };
  CHECK(text(1) == text(1));
  CHECK(text(1) != text(2));
}

TEST_CASE("what cannot be made later") {
  Recipe recipe;
  const Tensor real = ones({3});
  CHECK_THROWS_WITH_AS(recipe.record([&] { copy_elements(real, empty({3})); }),
                       doctest::Contains("come from elsewhere"), ValueError);
  CHECK_THROWS_WITH_AS(recipe.record([] { return randint({3}, 0, 9); }),
                       doctest::Contains("'integers' cannot be repeated"), ValueError);
  CHECK_THROWS_AS(recipe.record([] { return arange(3); }), DeviceError);
  CHECK_THROWS_AS(recipe.record([] { return ones({1}).item<float>(); }), DeviceError);
  CHECK_THROWS_WITH_AS(recipe.make(real), doctest::Contains("was not made"), ValueError);
  CHECK_THROWS_AS(recipe.make(recipe.record([] { return empty({3}); })), ValueError);
}

}  // namespace
}  // namespace capstan

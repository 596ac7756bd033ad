// einsum and matmul on random shapes, against loops over all indices.
#include <doctest/doctest.h>

#include <map>

#include "autograd/einsum.h"
#include "autograd/matmul.h"
#include "autograd/views.h"
#include "core/random.h"

namespace capstan {
namespace {

/// einsum by its definition: for every value of every letter, a product of elements.
Tensor slow_einsum(const std::vector<std::string>& letters, const std::string& result,
                   const std::vector<Tensor>& operands) {
  std::map<char, int64_t> sizes, at;
  for (size_t i = 0; i < operands.size(); ++i) {
    for (size_t k = 0; k < letters[i].size(); ++k) sizes[letters[i][k]] = operands[i].size(k);
  }
  int64_t total = 1;
  for (const auto& [letter, size] : sizes) total *= size;
  Shape shape;
  for (char letter : result) shape.push_back(sizes[letter]);
  const Tensor out = zeros(shape, {.dtype = Dtype::float64});
  const auto element = [&](const Tensor& x, const std::string& names) {
    int64_t offset = 0;
    for (size_t k = 0; k < names.size(); ++k) offset += at[names[k]] * x.strides()[k];
    return offset;
  };
  for (int64_t step = 0; step < total; ++step) {
    int64_t rest = step;
    for (const auto& [letter, size] : sizes) {
      at[letter] = rest % size;
      rest /= size;
    }
    double product = 1;
    for (size_t i = 0; i < operands.size(); ++i) {
      product *= operands[i].data<double>()[element(operands[i], letters[i])];
    }
    out.mutable_data<double>()[element(out, result)] += product;
  }
  return out;
}

double error(const Tensor& got, const Tensor& expected) {
  REQUIRE(got.shape() == expected.shape());
  double worst = 0;
  const auto a = got.to_vector<double>(), b = expected.to_vector<double>();
  for (size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::abs(a[i] - b[i]));
  return worst;
}

TEST_CASE("einsum of random letters") {
  Generator generator(1);
  for (int round = 0; round < 400; ++round) {
    std::map<char, int64_t> sizes;
    for (char letter = 'a'; letter < 'f'; ++letter) sizes[letter] = generator.below(4);
    std::vector<std::string> letters(1 + generator.below(3));
    std::vector<Tensor> operands;
    std::string equation, result, all;
    for (std::string& names : letters) {
      Shape shape;
      for (uint64_t k = generator.below(4); k > 0; --k) {
        names += static_cast<char>('a' + generator.below(5));
        shape.push_back(sizes[names.back()]);
      }
      equation += (operands.empty() ? "" : ",") + names;
      all += names;
      operands.push_back(randn(shape, 0, 1, {.dtype = Dtype::float64}, generator));
    }
    for (int64_t i : random_permutation(all.size(), generator)) {
      if (result.find(all[i]) == std::string::npos && generator.below(2)) result += all[i];
    }
    equation += "->" + result;
    CAPTURE(equation);
    CHECK(error(einsum(equation, operands), slow_einsum(letters, result, operands)) < 1e-12);
  }
}

TEST_CASE("matmul of random batches") {
  Generator generator(2);
  for (int round = 0; round < 200; ++round) {
    const int batch_axes = static_cast<int>(generator.below(3));
    Shape batch, a_shape, b_shape;
    for (int i = 0; i < batch_axes; ++i) {
      batch.push_back(generator.below(4));
      a_shape.push_back(generator.below(3) ? batch[i] : 1);
      b_shape.push_back(a_shape[i] != batch[i] || generator.below(3) ? batch[i] : 1);
    }
    const int64_t m = generator.below(4), k = generator.below(4), n = generator.below(4);
    for (int64_t size : {m, k}) a_shape.push_back(size);
    for (int64_t size : {k, n}) b_shape.push_back(size);
    const TensorOptions wide{.dtype = Dtype::float64};
    const Tensor a = randn(a_shape, 0, 1, wide, generator);
    const Tensor b = transpose(randn(b_shape, 0, 1, wide, generator), -2, -1);
    const Tensor got = matmul(a, transpose(b, -2, -1));
    Shape full_a = batch, full_b = batch;
    for (int64_t size : {m, k}) full_a.push_back(size);
    for (int64_t size : {k, n}) full_b.push_back(size);
    std::string names = "xyz";
    names = names.substr(0, batch_axes);
    const Tensor expected = slow_einsum(
        {names + "mk", names + "kn"}, names + "mn",
        {contiguous(expand(a, full_a)), contiguous(expand(transpose(b, -2, -1), full_b))});
    CHECK(error(got, expected) < 1e-12);
  }
}

}  // namespace
}  // namespace capstan

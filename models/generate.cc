#include "models/generate.h"

#include <algorithm>
#include <cmath>

#include "autograd/node.h"
#include "autograd/views.h"
#include "core/raise.h"
#include "core/random.h"

namespace capstan::models {
namespace {

/// The number of the first class at which the sum of the probabilities exceeds `u` in [0, 1).
int64_t draw(const std::vector<double>& logits, double temperature, double u) {
  const auto largest = std::max_element(logits.begin(), logits.end());
  if (temperature == 0) return largest - logits.begin();
  std::vector<double> sums;  // of the unnormalised probabilities, up to each class
  double sum = 0;
  for (double logit : logits) {
    sums.push_back(sum += std::exp((logit - *largest) / temperature));
  }
  const auto found = std::upper_bound(sums.begin(), sums.end(), u * sum);
  return std::min(found - sums.begin(), std::ssize(sums) - 1);
}

}  // namespace

std::vector<int64_t> generate(const Classifier& model, std::span<const int64_t> prompt,
                              const GenerateOptions& options) {
  const bool training = model.module().training();
  model.module().eval();
  const auto next = [&](const Tensor& tokens) {
    const NoGrad guard;
    return select(model(tokens), 0, tokens.size(1) - 1).to_vector<double>();
  };
  std::vector<int64_t> tokens = generate(next, prompt, options);
  model.module().train(training);
  return tokens;
}

std::vector<int64_t> generate(const NextLogits& next, std::span<const int64_t> prompt,
                              const GenerateOptions& options) {
  if (prompt.empty() || options.context < 1 || options.count < 0) {
    raise<ValueError>(
        "[generate] takes a prompt and a context of 1 token or more, and a count of 0 or more, got "
        "{}, {} and {}",
        prompt.size(), options.context, options.count);
  }
  if (!(options.temperature >= 0 && std::isfinite(options.temperature))) {
    raise<ValueError>("[generate] temperature must be 0 or more, got {}", options.temperature);
  }
  std::vector<int64_t> tokens(prompt.begin(), prompt.end());
  Generator generator(options.seed);
  for (int64_t i = 0; i < options.count; ++i) {
    const int64_t seen = std::min(std::ssize(tokens), options.context);
    const Tensor inputs = from_vector<int64_t>({tokens.end() - seen, tokens.end()}, {1, seen});
    const double u = static_cast<double>(generator.next() >> 11) * 0x1p-53;
    tokens.push_back(draw(next(inputs), options.temperature, u));
  }
  return {tokens.begin() + std::ssize(prompt), tokens.end()};
}

}  // namespace capstan::models

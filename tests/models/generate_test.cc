// Writing: each token is drawn from the model's probabilities, in a way that can be repeated.
#include "models/generate.h"

#include <doctest/doctest.h>

#include <cmath>

#include "core/error.h"
#include "core/random.h"
#include "core/threads.h"
#include "models/gpt.h"

using namespace capstan;
using namespace capstan::models;

namespace {

using Tokens = std::vector<int64_t>;

/// Logits that count: after a token t, t + 1 is likeliest, t + 2 half as likely, others impossible.
/// It also notes how much it was shown.
struct Counting : nn::Module {
  int64_t most_seen = 0;
  CAPSTAN_MODULE(Counting)
  Tensor forward(const Tensor& tokens) {
    most_seen = std::max(most_seen, tokens.size(1));
    const auto shown = tokens.to_vector<int64_t>();
    Tensor logits = full({tokens.size(1), 5}, -1e9);
    for (int64_t i = 0; i < tokens.size(1); ++i) {
      float* row = logits.mutable_data<float>() + 5 * i;
      row[(shown[i] + 1) % 5] = 0;
      row[(shown[i] + 2) % 5] = -std::log(2.f);
    }
    return logits;
  }
};

}  // namespace

TEST_CASE("at temperature 0 the likeliest token comes, and no more than the context is seen") {
  auto counting = std::make_unique<Counting>();
  Counting& counter = *counting;
  const Classifier model(std::move(counting));
  CHECK(generate(model, Tokens{3}, {.count = 7, .context = 4, .temperature = 0}) ==
        Tokens{4, 0, 1, 2, 3, 4, 0});
  CHECK(counter.most_seen == 4);
  CHECK(counter.training());
  CHECK(generate(model, Tokens{3}, {.count = 0, .context = 1}).empty());
}

TEST_CASE("tokens come as often as they are likely, at any temperature") {
  const Classifier model(std::make_unique<Counting>());
  for (const double temperature : {1.0, 0.5, 2.0}) {
    const auto tokens = generate(
        model, Tokens{0}, {.count = 4000, .context = 1, .temperature = temperature, .seed = 1});
    int64_t ones = 0, before = 0;
    for (int64_t token : tokens) {
      const int64_t step = (token - before + 5) % 5;
      REQUIRE((step == 1 || step == 2));
      ones += step == 1;
      before = token;
    }
    const double odds = std::pow(2, 1 / temperature), share = odds / (1 + odds);
    CHECK(static_cast<double>(ones) / 4000 == doctest::Approx(share).epsilon(0.05));
  }
}

TEST_CASE("the same seed writes the same, on any number of threads, and leaves other numbers") {
  manual_seed(1);
  const Classifier model(std::make_unique<Gpt>(
      GptShape{.vocabulary = 50, .context = 16, .layers = 1, .heads = 2, .width = 32}, 0.5));
  const int before = thread_count();
  const Generator generator = default_generator();
  const GenerateOptions options{.count = 40, .context = 16, .seed = 5};
  const Tokens first = generate(model, Tokens{7, 8}, options);
  set_thread_count(3);
  CHECK(generate(model, Tokens{7, 8}, options) == first);
  set_thread_count(before);
  CHECK(default_generator() == generator);
  CHECK(generate(model, Tokens{7, 8}, {.count = 40, .context = 16, .seed = 6}) != first);
  // Fewer tokens are the beginning of more.
  const Tokens fewer = generate(model, Tokens{7, 8}, {.count = 10, .context = 16, .seed = 5});
  CHECK(fewer == Tokens(first.begin(), first.begin() + 10));
}

TEST_CASE("what makes no sense is refused") {
  const Classifier model(std::make_unique<Counting>());
  const auto refuse = [&](const Tokens& prompt, const GenerateOptions& options, const char* text) {
    CHECK_THROWS_WITH_AS(generate(model, prompt, options), doctest::Contains(text), ValueError);
  };
  refuse({}, {.count = 1, .context = 1}, "got 0, 1 and 1");
  refuse({1}, {.count = 1, .context = 0}, "got 1, 0 and 1");
  refuse({1}, {.count = -1, .context = 1}, "got 1, 1 and -1");
  refuse({1}, {.count = 1, .context = 1, .temperature = -1}, "temperature must be 0 or more");
  refuse({1}, {.count = 1, .context = 1, .temperature = NAN}, "temperature must be 0 or more");
}

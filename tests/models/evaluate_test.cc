#include "models/evaluate.h"

#include <doctest/doctest.h>

#include <cmath>

#include "distributed/comm/self.h"
#include "distributed/comm/thread.h"
#include "models/image_task.h"
#include "tests/models/images.h"

using namespace capstan;
using namespace capstan::models;
using capstan::testing::Head;
using capstan::testing::squares;

TEST_CASE("count_correct counts the rows whose largest logit is at the label") {
  const Tensor logits = from_vector<float>({0, 2, 1, 5, 4, 3, 0, 0, 1}, {3, 3});
  CHECK(count_correct(logits, from_vector<int64_t>({1, 0, 2}, {3})) == 3);
  CHECK(count_correct(logits, from_vector<int64_t>({1, 1, 2}, {3})) == 2);
}

TEST_CASE("every sample counts once, on any number of ranks and at any batch") {
  const data::ImageDataset all = squares(23);
  for (int64_t count : {1, 2, 7, 23}) {
    const Head set(all, count);
    // The slow reference: one sample at a time, on one rank.
    manual_seed(5);
    const Classifier reference = make_image_model("mlp");
    int64_t correct = 0;
    double loss = 0;
    for (int64_t i = 0; i < count; ++i) {
      const data::Batch one = set.batch(std::vector<int64_t>{i});
      const auto logits = reference(one.inputs).to_vector<float>();
      const int64_t label = one.labels.item<int64_t>();
      double sum = 0;
      for (float logit : logits) sum += std::exp(logit);
      loss += std::log(sum) - logits[label];
      correct += std::max_element(logits.begin(), logits.end()) - logits.begin() == label;
    }
    for (const auto& [ranks, batch] : {std::pair(1, 256), {1, 3}, {2, 4}, {3, 2}, {4, 256}}) {
      distributed::run_ranks(ranks, [&, batch = batch](distributed::Communicator& communicator) {
        manual_seed(5);
        const Classifier model = make_image_model("mlp", 0.5);  // dropout is off here
        const Evaluation found = evaluate(model, set, communicator, batch);
        CHECK(found.samples == count);
        CHECK(found.correct == correct);
        CHECK(found.loss == doctest::Approx(loss / static_cast<double>(count)).epsilon(1e-5));
        CHECK(model.module().training());
      });
    }
  }
}

TEST_CASE("an empty set has no accuracy") {
  const Classifier model = make_image_model("mlp");
  const Evaluation found = evaluate(model, Head(squares(1), 0), *distributed::make_self());
  CHECK(found.samples == 0);
  CHECK(std::isnan(found.accuracy()));
  CHECK(std::isnan(found.loss));
}

TEST_CASE("models go by name") {
  CHECK(make_image_model("mlp").module().parameter_count() == 669'706);
  CHECK(make_image_model("lenet").module().parameter_count() == 431'080);
  CHECK_THROWS_AS(make_image_model("vgg"), ValueError);
}

TEST_CASE("the sum of the weights sees every bit and is not moved by a view") {
  manual_seed(1);
  const Classifier a = make_image_model("mlp");
  manual_seed(1);
  const Classifier b = make_image_model("mlp");
  CHECK(weights_sha256(a.module()) == weights_sha256(b.module()));
  const Tensor last = b.module().parameters().back().second;
  float& element = last.mutable_data<float>()[9];
  element = std::nextafter(element, 1.0f);
  CHECK(weights_sha256(a.module()) != weights_sha256(b.module()));
}

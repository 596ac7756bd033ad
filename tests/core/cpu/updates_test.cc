// The rules of optimizers against their formulas in float64, and the kernel that runs them.
#include "core/updates.h"

#include "tests/core/cpu/reference.h"

using namespace capstan;
using namespace capstan::testing;

namespace {

const Shape kShape = {3, 50, 331};  // more than one block, and not a multiple of a vector

/// One rule, and what it does to one element, written out.
struct RuleCase {
  std::string name;
  UpdateRule rule;
  std::vector<bool> kept;  // which of the rule's tensors are there
  std::function<void(double& p, double g, double* k)> reference;
};

void sgd(double& p, double g, double* k, double momentum, double decay, bool nesterov) {
  double slope = g + decay * p;
  k[0] = momentum * k[0] + slope;
  p -= 0.1 * (nesterov ? slope + momentum * k[0] : k[0]);
}
void moments(double g, double* k) {
  k[0] = 0.9 * k[0] + 0.1 * g;
  k[1] = 0.99 * k[1] + 0.01 * g * g;
}
void rmsprop(double& p, double g, double* k, double momentum, bool centered) {
  g += 0.1 * p;
  k[0] = 0.9 * k[0] + 0.1 * g * g;
  k[1] = 0.9 * k[1] + 0.1 * g;
  k[2] = momentum * k[2] + g / (std::sqrt(centered ? k[0] - k[1] * k[1] : k[0]) + 1e-2);
  p -= 0.01 * k[2];
}

std::vector<RuleCase> rule_cases() {
  std::vector<RuleCase> cases;
  for (const double decay : {0.0, 0.1}) {
    cases.push_back({"sgd",
                     SgdRule{.rate = 0.1, .weight_decay = decay},
                     {false},
                     [=](double& p, double g, double*) { p -= 0.1 * (g + decay * p); }});
    for (const bool nesterov : {false, true}) {
      const SgdRule rule{.rate = 0.1, .momentum = 0.9, .weight_decay = decay, .nesterov = nesterov};
      cases.push_back({"momentum", rule, {true}, [=](double& p, double g, double* k) {
                         sgd(p, g, k, 0.9, decay, nesterov);
                       }});
    }
  }
  cases.push_back({"sgd, a share of the slope",
                   SgdRule{.rate = 1, .momentum = 0.9, .share = 0.2},
                   {true},
                   [](double& p, double g, double* k) {
                     k[0] = 0.9 * k[0] + 0.2 * g;
                     p -= k[0];
                   }});
  const AdamRule adam{.rate = 0.01,
                      .beta1 = 0.9,
                      .beta2 = 0.99,
                      .epsilon = 1e-2,
                      .bias1 = 0.2,
                      .bias2 = 0.3,
                      .decay = 0.1};
  cases.push_back({"adamw", adam, {true, true, false}, [](double& p, double g, double* k) {
                     moments(g, k);
                     p -= 0.01 * (0.1 * p + k[0] / 0.2 / (std::sqrt(k[1] / 0.3) + 1e-2));
                   }});
  AdamRule amsgrad = adam;
  amsgrad.amsgrad = true;
  amsgrad.decay = 0;
  amsgrad.l2 = 0.2;
  cases.push_back(
      {"adam, amsgrad", amsgrad, {true, true, true}, [](double& p, double g, double* k) {
         moments(g + 0.2 * p, k);
         k[2] = std::max(k[2], k[1]);
         p -= 0.01 * (k[0] / 0.2 / (std::sqrt(k[2] / 0.3) + 1e-2));
       }});
  cases.push_back({"lamb",
                   LambRule{.beta1 = 0.9,
                            .beta2 = 0.99,
                            .epsilon = 1e-2,
                            .weight_decay = 0.1,
                            .bias1 = 0.2,
                            .bias2 = 0.3},
                   {true, true, true},
                   [](double& p, double g, double* k) {
                     moments(g, k);
                     k[2] = k[0] / 0.2 / (std::sqrt(k[1] / 0.3) + 1e-2) + 0.1 * p;
                   }});
  for (const bool centered : {false, true}) {
    for (const double momentum : {0.0, 0.9}) {
      cases.push_back(
          {"rmsprop",
           RmspropRule{.rate = 0.01,
                       .alpha = 0.9,
                       .epsilon = 1e-2,
                       .momentum = momentum,
                       .weight_decay = 0.1,
                       .centered = centered},
           {true, centered, momentum > 0},
           [=](double& p, double g, double* k) { rmsprop(p, g, k, momentum, centered); }});
    }
  }
  cases.push_back({"adagrad",
                   AdagradRule{.rate = 0.1, .epsilon = 1e-2, .weight_decay = 0.1},
                   {true},
                   [](double& p, double g, double* k) {
                     g += 0.1 * p;
                     k[0] += g * g;
                     p -= 0.1 * g / (std::sqrt(k[0]) + 1e-2);
                   }});
  cases.push_back({"adadelta",
                   AdadeltaRule{.rate = 0.5, .rho = 0.9, .epsilon = 1e-2, .weight_decay = 0.1},
                   {true, true},
                   [](double& p, double g, double* k) {
                     g += 0.1 * p;
                     k[0] = 0.9 * k[0] + 0.1 * g * g;
                     const double change = std::sqrt((k[1] + 1e-2) / (k[0] + 1e-2)) * g;
                     k[1] = 0.9 * k[1] + 0.1 * change * change;
                     p -= 0.5 * change;
                   }});
  cases.push_back({"lion",
                   LionRule{.rate = 0.01, .beta1 = 0.5, .beta2 = 0.75, .decay = 0.1},
                   {true},
                   [](double& p, double g, double* k) {
                     const double c = 0.5 * k[0] + 0.5 * g;  // exact in float32, too
                     p -= 0.01 * ((c > 0) - (c < 0) + 0.1 * p);
                     k[0] = 0.75 * k[0] + 0.25 * g;
                   }});
  cases.push_back({"average", AverageRule{.share = 0.25}, {}, [](double& p, double g, double*) {
                     p += 0.25 * (g - p);
                   }});
  return cases;
}

/// Tensors that one rule works on.
struct Target {
  Tensor parameter, grad;
  std::vector<Tensor> kept;

  Target(const RuleCase& rule_case, const Shape& shape, Dtype dtype, uint32_t seed)
      : parameter(some_values(shape, dtype, seed)), grad(some_values(shape, dtype, seed + 10)) {
    for (const bool there : rule_case.kept) {
      kept.push_back(there ? zeros(shape, {.dtype = dtype}) : Tensor());
    }
  }
  Update update(const UpdateRule& rule) const { return {rule, parameter, grad, kept}; }
};

}  // namespace

TEST_CASE("three steps of every rule match float64") {
  for (const RuleCase& rule_case : rule_cases()) {
    for (const Dtype dtype : kFloating) {
      CAPTURE(rule_case.name);
      CAPTURE(to_string(dtype));
      const Target target(rule_case, kShape, dtype, 1);
      const auto count = static_cast<size_t>(numel(kShape));
      std::vector<double> p = target.parameter.to_vector<double>();
      std::vector<std::array<double, 3>> k(count);
      for (uint32_t step = 0; step < 3; ++step) {
        copy_elements(some_values(kShape, dtype, 20 + step), target.grad);
        const auto g = target.grad.to_vector<double>();
        apply_update(target.update(rule_case.rule));
        for (size_t i = 0; i < count; ++i) rule_case.reference(p[i], g[i], k[i].data());
      }
      CHECK(error_of(target.parameter, p) < 20 * tolerance(dtype));
      for (size_t j = 0; j < target.kept.size(); ++j) {
        if (!target.kept[j].defined()) continue;
        std::vector<double> expected(count);
        for (size_t i = 0; i < count; ++i) expected[i] = k[i][j];
        CHECK(error_of(target.kept[j], expected) < 20 * tolerance(dtype));
      }
      check_threads([&] {
        const Target again(rule_case, kShape, dtype, 1);
        apply_update(again.update(rule_case.rule));
        return again.parameter;
      });
    }
  }
}

TEST_CASE("many parameters in one call get what each would get alone, to the last bit") {
  const std::vector<RuleCase> rules = rule_cases();
  const std::vector<Shape> shapes = {{}, {5}, {0, 3}, {1023}, {300, 200}, {7, 9}, {0}, {40000}};
  const auto targets = [&] {
    std::vector<Target> targets;
    for (uint32_t i = 0; i < 40; ++i) {
      const Dtype dtype = i % 3 == 0 ? Dtype::float64 : Dtype::float32;
      targets.emplace_back(rules[i % rules.size()], shapes[i % shapes.size()], dtype, i);
    }
    return targets;
  };
  const std::vector<Target> alone = targets();
  for (size_t i = 0; i < alone.size(); ++i) {
    apply_update(alone[i].update(rules[i % rules.size()].rule));
  }
  for (const int threads : {1, 2, 5}) {
    set_thread_count(threads);
    const std::vector<Target> together = targets();
    std::vector<Update> updates;
    for (size_t i = 0; i < together.size(); ++i) {
      updates.push_back(together[i].update(rules[i % rules.size()].rule));
    }
    apply_updates(updates);
    for (size_t i = 0; i < together.size(); ++i) {
      CAPTURE(i);
      CHECK(same_bits(together[i].parameter, alone[i].parameter));
      for (size_t j = 0; j < together[i].kept.size(); ++j) {
        if (!together[i].kept[j].defined()) continue;
        CHECK(same_bits(together[i].kept[j], alone[i].kept[j]));
      }
    }
  }
  set_thread_count(1);
}

TEST_CASE("an update counts as a change in place of what it changes") {
  const Tensor p = ones({3}), g = ones({3});
  const Tensor kept[] = {zeros({3})};
  const int64_t before[] = {p.version(), g.version(), kept[0].version()};
  apply_update({SgdRule{.rate = 0.1, .momentum = 0.9}, p, g, kept});
  CHECK(p.version() > before[0]);
  CHECK(g.version() == before[1]);
  CHECK(kept[0].version() > before[2]);
}

TEST_CASE("updates of several devices in one call, meta among them") {
  const auto at = [](Device device) { return ones({2}, {.device = device}); };
  const Device devices[] = {Device::cpu(0), Device::meta(), Device::meta(), Device::cpu(1)};
  std::vector<Update> updates;
  for (const Device device : devices) {
    updates.push_back({SgdRule{.rate = 0.5}, at(device), at(device)});
  }
  apply_updates(updates);
  CHECK(updates[0].parameter.to_vector<float>() == std::vector<float>{0.5f, 0.5f});
  CHECK(updates[3].parameter.to_vector<float>() == std::vector<float>{0.5f, 0.5f});
  apply_updates({});
}

TEST_CASE("NaN is not lost in any rule") {
  for (const RuleCase& rule_case : rule_cases()) {
    CAPTURE(rule_case.name);
    const Target target(rule_case, {3}, Dtype::float32, 1);
    fill_elements(target.grad, NAN);
    apply_update(target.update(rule_case.rule));
    const Tensor& changed = rule_case.name == "lamb" ? target.kept[2] : target.parameter;
    for (const float x : changed.to_vector<float>()) CHECK(std::isnan(x));
  }
}

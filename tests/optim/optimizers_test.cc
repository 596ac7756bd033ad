// Tests of the optimizers, all in one table: the path of twenty steps, as PyTorch goes it or as the
// paper's algorithm, written out in published_algorithms.h, does; that a run may be stopped and
// continued anywhere, on any number of threads; and which options are refused.
#include <doctest/doctest.h>

#include <cmath>

#include "autograd/autocast.h"
#include "autograd/views.h"
#include "core/error.h"
#include "core/threads.h"
#include "optim/adadelta.h"
#include "optim/adafactor.h"
#include "optim/adagrad.h"
#include "optim/adam.h"
#include "optim/adamw.h"
#include "optim/lamb.h"
#include "optim/lars.h"
#include "optim/lion.h"
#include "optim/muon.h"
#include "optim/rmsprop.h"
#include "optim/sgd.h"
#include "tests/golden/golden.h"
#include "tests/optim/parameters.h"
#include "tests/optim/published_algorithms.h"

namespace capstan::optim {
namespace {

using doctest::Contains;
using testing::give_grad;
using testing::parameter;
using testing::parameter_of;
using Make = std::function<std::unique_ptr<Optimizer>(const NamedTensors&)>;

template <class O, class Options>
Make make(Options options) {
  return [=](const NamedTensors& p) { return std::make_unique<O>(p, options); };
}

struct Setting {
  std::string name;  // in make_optim_golden.py, unless there is a reference
  Make make;
  double rate;
  testing::Algorithm reference = nullptr;
  int least_rank = 0;  // of the parameters
};

std::vector<Setting> settings() {
  using namespace testing;
  return {
      {"sgd", make<Sgd>(SgdOptions{}), 0.05},
      {"sgd_decay", make<Sgd>(SgdOptions{.weight_decay = 0.1}), 0.05},
      {"sgd_momentum", make<Sgd>(SgdOptions{.momentum = 0.9}), 0.05},
      {"sgd_nesterov",
       make<Sgd>(SgdOptions{.momentum = 0.9, .weight_decay = 0.1, .nesterov = true}), 0.05},
      {"adamw", make<AdamW>(AdamWOptions{}), 0.05},
      {"adamw_options",
       make<AdamW>(AdamWOptions{.beta1 = 0.8, .beta2 = 0.9, .epsilon = 1e-3, .weight_decay = 0.3}),
       0.01},
      {"adam", make<Adam>(AdamOptions{}), 0.05},
      {"adam_decay",
       make<Adam>(AdamOptions{.beta1 = 0.8, .beta2 = 0.9, .epsilon = 1e-3, .weight_decay = 0.3}),
       0.01},
      {"adam_amsgrad", make<Adam>(AdamOptions{.beta2 = 0.7, .amsgrad = true}), 0.05},
      {"rmsprop", make<Rmsprop>(RmspropOptions{}), 0.01},
      {"rmsprop_options",
       make<Rmsprop>(RmspropOptions{.alpha = 0.9, .epsilon = 1e-3, .weight_decay = 0.1}), 0.01},
      {"rmsprop_centered", make<Rmsprop>(RmspropOptions{.centered = true}), 0.01},
      {"rmsprop_all",
       make<Rmsprop>(
           RmspropOptions{.alpha = 0.8, .momentum = 0.9, .weight_decay = 0.1, .centered = true}),
       0.01},
      {"adagrad", make<Adagrad>(AdagradOptions{}), 0.1},
      {"adagrad_options",
       make<Adagrad>(AdagradOptions{.epsilon = 1e-3, .weight_decay = 0.1, .start = 0.5}), 0.1},
      {"adadelta", make<Adadelta>(AdadeltaOptions{}), 1},
      {"adadelta_options",
       make<Adadelta>(AdadeltaOptions{.rho = 0.7, .epsilon = 1e-3, .weight_decay = 0.1}), 0.5},
      {"lamb", make<Lamb>(LambOptions{}), 0.05, lamb(0.9, 0.999, 1e-6, 0.01, true)},
      {"lamb_options",
       make<Lamb>(LambOptions{
           .beta1 = 0.8, .beta2 = 0.9, .epsilon = 1e-3, .weight_decay = 0.3, .adapt = false}),
       0.05, lamb(0.8, 0.9, 1e-3, 0.3, false)},
      {"lars", make<Lars>(LarsOptions{}), 0.05, lars(0.9, 0, 1e-3, true)},
      {"lars_options",
       make<Lars>(LarsOptions{.momentum = 0.5, .weight_decay = 0.1, .coefficient = 0.02}), 0.05,
       lars(0.5, 0.1, 0.02, true)},
      {"lars_plain", make<Lars>(LarsOptions{.adapt = false}), 0.05, lars(0.9, 0, 1, false)},
      {"lion", make<Lion>(LionOptions{}), 0.01, lion(0.9, 0.99, 0)},
      {"lion_options", make<Lion>(LionOptions{.beta1 = 0.8, .beta2 = 0.7, .weight_decay = 0.3}),
       0.01, lion(0.8, 0.7, 0.3)},
      {"adafactor", make<Adafactor>(AdafactorOptions{}), 0.01, adafactor(0.8, 1e-30, 1e-3, 1, 0)},
      {"adafactor_options",
       make<Adafactor>(AdafactorOptions{
           .decay = 0.5, .floor = 1e-4, .least_scale = 4, .threshold = 0.5, .weight_decay = 0.3}),
       0.01, adafactor(0.5, 1e-4, 4, 0.5, 0.3)},
      {"muon", make<Muon>(MuonOptions{}), 0.02, muon(0.95, 0, true), 2},
      {"muon_options",
       make<Muon>(MuonOptions{.momentum = 0.5, .weight_decay = 0.3, .nesterov = false}), 0.02,
       muon(0.5, 0.3, false), 2},
  };
}

std::vector<Shape> shapes(const Setting& setting) {
  std::vector<Shape> shapes = {{5}, {4, 3}, {3, 4}, {2, 3, 4}, {1, 1}};
  if (setting.least_rank == 2) shapes.erase(shapes.begin());
  return shapes;
}

TEST_CASE("three AdamW steps with known answers") {
  const Tensor p = parameter({1});
  AdamW optimizer({{"p", p}}, {.weight_decay = 1e-2});
  const double grads[] = {0.1, -0.2, 0.3};
  const double expected[] = {0.9989900001, 0.9993461137, 0.9989928792};
  for (int i = 0; i < 3; ++i) {
    give_grad(p, grads[i]);
    optimizer.step(1e-3);
    CHECK(std::abs(p.item<double>() - expected[i]) < 1e-10);
  }
}

TEST_CASE("twenty steps of every kind go PyTorch's way") {
  const auto golden = testing::load_golden("optimizers");
  for (const Setting& setting : settings()) {
    if (setting.reference) continue;
    for (const Dtype dtype : {Dtype::float64, Dtype::float32}) {
      CAPTURE(setting.name);
      CAPTURE(to_string(dtype));
      const Tensor p = parameter_of(golden.at("start"), dtype);
      const auto optimizer = setting.make({{"p", p}});
      for (int64_t i = 0; i < 20; ++i) {
        give_grad(p, select(golden.at("grads"), 0, i));
        optimizer->step(setting.rate);
        const Tensor expected = select(golden.at(setting.name + "/steps"), 0, i);
        CHECK(testing::distance(p, expected) < (dtype == Dtype::float64 ? 1e-12 : 1e-5));
      }
    }
  }
}

TEST_CASE("twenty steps of what PyTorch does not have go as the paper's algorithm") {
  for (const Setting& setting : settings()) {
    if (!setting.reference) continue;
    for (const Shape& shape : shapes(setting)) {
      for (const Dtype dtype : {Dtype::float64, Dtype::float32}) {
        CAPTURE(setting.name);
        CAPTURE(to_string(shape));
        CAPTURE(to_string(dtype));
        const Tensor p = parameter_of(testing::some_values(shape, 1), dtype);
        const auto optimizer = setting.make({{"p", p}});
        testing::Numbers reference = p.to_vector<double>();
        testing::Memory memory;
        for (uint32_t i = 0; i < 20; ++i) {
          const Tensor grad = testing::some_values(shape, 10 + i);
          give_grad(p, grad);
          optimizer->step(setting.rate);
          setting.reference(reference, grad.to_vector<double>(), shape, setting.rate, i + 1,
                            memory);
          CHECK(testing::distance(p, from_vector(reference, shape)) <
                (dtype == Dtype::float64 ? 1e-12 : 1e-4));
        }
      }
    }
  }
}

TEST_CASE("16-bit parameters are the rounded float32 ones of a run in float32") {
  for (const Setting& setting : settings()) {
    for (const Dtype dtype : {Dtype::bfloat16, Dtype::float16}) {
      CAPTURE(setting.name);
      CAPTURE(to_string(dtype));
      const Tensor narrow = parameter_of(testing::some_values({4, 3}, 1), dtype);
      const Tensor wide = parameter_of(detach(narrow), Dtype::float32);
      const auto stepped = setting.make({{"p", narrow}}), reference = setting.make({{"p", wide}});
      for (uint32_t i = 0; i < 20; ++i) {
        const Tensor grad = cast(testing::some_values({4, 3}, 10 + i), dtype);
        give_grad(narrow, grad);
        give_grad(wide, grad);
        stepped->step(setting.rate);
        reference->step(setting.rate);
        CHECK(narrow.dtype() == dtype);
        CHECK(testing::distance(narrow, cast(detach(wide), dtype)) == 0);
      }
      for (const auto& [name, kept] : stepped->state()) {
        CHECK((kept.dtype() == Dtype::float32 || kept.dtype() == Dtype::int64));
        if (name == "p.master") CHECK(testing::distance(kept, wide) == 0);
      }
    }
  }
}

/// Steps `from`, ..., `to` - 1, with gradients that depend on the step alone.
void take_steps(const Setting& setting, Optimizer& optimizer, uint32_t from, uint32_t to) {
  for (uint32_t i = from; i < to; ++i) {
    uint32_t seed = 100 * i;
    for (const auto& [_, p] : optimizer.parameters()) {
      give_grad(p, testing::some_values(p.shape(), seed++));
    }
    optimizer.step(setting.rate);
  }
}

NamedTensors float32_parameters(const std::vector<Shape>& shapes) {
  NamedTensors parameters;
  for (size_t i = 0; i < shapes.size(); ++i) {
    const Tensor values = testing::some_values(shapes[i], static_cast<uint32_t>(i));
    parameters.emplace_back("net." + std::to_string(i), parameter_of(values, Dtype::float32));
  }
  return parameters;
}

TEST_CASE("a run that is saved, loaded and continued is the run, to the last bit") {
  for (const Setting& setting : settings()) {
    CAPTURE(setting.name);
    const auto whole = setting.make(float32_parameters(shapes(setting)));
    take_steps(setting, *whole, 0, 7);

    NamedTensors copies;
    for (const auto& [name, p] : whole->parameters()) {
      copies.emplace_back(name, parameter_of(p, Dtype::float32));
    }
    const auto resumed = setting.make(copies);
    resumed->load_state(testing::saved(whole->state()));
    take_steps(setting, *whole, 7, 20);
    take_steps(setting, *resumed, 7, 20);

    for (size_t i = 0; i < copies.size(); ++i) {
      CHECK(copies[i].second.to_vector<float>() ==
            whole->parameters()[i].second.to_vector<float>());
    }
    REQUIRE(resumed->state().size() == whole->state().size());
    for (size_t i = 0; i < resumed->state().size(); ++i) {
      const auto& [name, tensor] = resumed->state()[i];
      CHECK(name == whole->state()[i].first);
      CHECK(tensor.to_vector<double>() == whole->state()[i].second.to_vector<double>());
    }
    CHECK(resumed->state().back().second.item<int64_t>() == 20);
  }
}

TEST_CASE("any number of threads gives the same bits") {
  for (const Setting& setting : settings()) {
    CAPTURE(setting.name);
    std::vector<Shape> large = {{150, 301}, {2, 70, 300}, {3, 5}};
    if (setting.least_rank < 2) large.push_back({70'000});
    std::vector<std::vector<float>> expected;
    for (const int threads : {1, 2, 5}) {
      set_thread_count(threads);
      const auto optimizer = setting.make(float32_parameters(large));
      take_steps(setting, *optimizer, 0, 2);
      std::vector<std::vector<float>> got;
      for (const auto& [_, p] : optimizer->parameters()) got.push_back(p.to_vector<float>());
      if (threads == 1) expected = got;
      CHECK(got == expected);
    }
    set_thread_count(1);
  }
}

TEST_CASE("a step inside an Autocast is the same, to the last bit") {
  for (const Setting& setting : settings()) {
    CAPTURE(setting.name);
    const auto plain = setting.make(float32_parameters({{7, 5}, {4, 9}}));
    const auto inside = setting.make(float32_parameters({{7, 5}, {4, 9}}));
    take_steps(setting, *plain, 0, 2);
    const Autocast guard;
    take_steps(setting, *inside, 0, 2);
    for (size_t i = 0; i < 2; ++i) {
      CHECK(inside->parameters()[i].second.to_vector<float>() ==
            plain->parameters()[i].second.to_vector<float>());
    }
  }
}

TEST_CASE("parameters without elements or of zeros, and gradients of zeros, do no harm") {
  for (const Setting& setting : settings()) {
    CAPTURE(setting.name);
    const Tensor none = parameter_of(zeros({0, 3})), zero = parameter_of(zeros({2, 3})),
                 one = parameter_of(ones({2, 3}));
    const auto optimizer = setting.make({{"none", none}, {"zero", zero}, {"one", one}});
    give_grad(none, 0);
    give_grad(zero, 1);
    give_grad(one, 0);
    for (int step = 0; step < 3; ++step) optimizer->step(setting.rate);
    for (const Tensor& p : {zero, one}) {
      for (const double x : p.to_vector<double>()) CHECK(std::isfinite(x));
    }
    CHECK(zero.to_vector<double>()[0] < 0);  // against the gradient
  }
}

TEST_CASE("parts of a parameter are stepped to the bits of the whole, or refused") {
  const auto sees_tensors = [](const std::string& name) {
    for (const char* kind : {"lamb", "lars", "adafactor", "muon"}) {
      if (name.starts_with(kind)) return true;
    }
    return false;
  };
  constexpr int64_t kCut = 17;  // in a row
  const auto parts_of = [](const Tensor& whole) {
    const Tensor flat = flatten(detach(whole));
    return std::vector{reshape(slice(flat, 0, 0, kCut), {1, kCut}),
                       reshape(slice(flat, 0, kCut, flat.numel()), {1, -1})};
  };
  for (const Setting& setting : settings()) {
    CAPTURE(setting.name);
    const Tensor p = parameter_of(testing::some_values({6, 7}, 1), Dtype::float32);
    NamedTensors parts;
    for (const Tensor& part : parts_of(p)) {
      parts.emplace_back("part " + std::to_string(parts.size()), parameter_of(part, p.dtype()));
      accumulator(parts.back().second).part_of_whole = true;
    }
    if (sees_tensors(setting.name)) {
      CHECK_THROWS_WITH_AS(setting.make(parts),
                           Contains("'part 0' is one rank's part of a parameter"), ValueError);
      continue;
    }
    const auto whole = setting.make({{"whole", p}}), cut = setting.make(parts);
    for (uint32_t i = 0; i < 5; ++i) {
      const Tensor grad = testing::some_values({6, 7}, 10 + i);
      give_grad(p, grad);
      for (size_t k = 0; k < 2; ++k) give_grad(parts[k].second, parts_of(grad)[k]);
      whole->step(setting.rate);
      cut->step(setting.rate);
    }
    for (size_t k = 0; k < 2; ++k) {
      CHECK(parts[k].second.to_vector<float>() == parts_of(p)[k].to_vector<float>());
    }
  }
}

template <class O, class Options>
void check_refused(const char* start, std::initializer_list<double Options::*> options,
                   std::initializer_list<double> values) {
  const NamedTensors p = {{"p", parameter_of(ones({2, 2}))}};
  for (const auto option : options) {
    for (const double value : values) {
      Options chosen;
      chosen.*option = value;
      CAPTURE(value);
      CHECK_THROWS_WITH_AS(O(p, chosen), Contains(start), ValueError);
    }
  }
}

TEST_CASE("options must make sense") {
  const std::initializer_list<double> no_fraction = {-0.1, 1, std::nan(""), HUGE_VAL},
                                      not_positive = {0, -1, std::nan(""), HUGE_VAL},
                                      negative = {-1, std::nan(""), HUGE_VAL};
  check_refused<Sgd>("[sgd]", {&SgdOptions::momentum}, no_fraction);
  check_refused<Sgd>("[sgd]", {&SgdOptions::weight_decay}, negative);
  CHECK_THROWS_WITH_AS(Sgd({}, {.nesterov = true}), Contains("[sgd] Nesterov needs"), ValueError);

  check_refused<AdamW>("[adamw]", {&AdamWOptions::beta1, &AdamWOptions::beta2}, no_fraction);
  check_refused<AdamW>("[adamw]", {&AdamWOptions::epsilon}, not_positive);
  check_refused<AdamW>("[adamw]", {&AdamWOptions::weight_decay}, negative);

  check_refused<Adam>("[adam]", {&AdamOptions::beta1, &AdamOptions::beta2}, no_fraction);
  check_refused<Adam>("[adam]", {&AdamOptions::epsilon}, not_positive);
  check_refused<Adam>("[adam]", {&AdamOptions::weight_decay}, negative);

  check_refused<Rmsprop>("[rmsprop]", {&RmspropOptions::alpha, &RmspropOptions::momentum},
                         no_fraction);
  check_refused<Rmsprop>("[rmsprop]", {&RmspropOptions::epsilon}, not_positive);
  check_refused<Rmsprop>("[rmsprop]", {&RmspropOptions::weight_decay}, negative);

  check_refused<Adagrad>("[adagrad]", {&AdagradOptions::epsilon}, not_positive);
  check_refused<Adagrad>("[adagrad]", {&AdagradOptions::weight_decay, &AdagradOptions::start},
                         negative);

  check_refused<Adadelta>("[adadelta]", {&AdadeltaOptions::rho}, no_fraction);
  check_refused<Adadelta>("[adadelta]", {&AdadeltaOptions::epsilon}, not_positive);
  check_refused<Adadelta>("[adadelta]", {&AdadeltaOptions::weight_decay}, negative);

  check_refused<Lamb>("[lamb]", {&LambOptions::beta1, &LambOptions::beta2}, no_fraction);
  check_refused<Lamb>("[lamb]", {&LambOptions::epsilon}, not_positive);
  check_refused<Lamb>("[lamb]", {&LambOptions::weight_decay}, negative);

  check_refused<Lars>("[lars]", {&LarsOptions::momentum}, no_fraction);
  check_refused<Lars>("[lars]", {&LarsOptions::coefficient}, not_positive);
  check_refused<Lars>("[lars]", {&LarsOptions::weight_decay}, negative);

  check_refused<Lion>("[lion]", {&LionOptions::beta1, &LionOptions::beta2}, no_fraction);
  check_refused<Lion>("[lion]", {&LionOptions::weight_decay}, negative);

  check_refused<Adafactor>("[adafactor]",
                           {&AdafactorOptions::decay, &AdafactorOptions::floor,
                            &AdafactorOptions::least_scale, &AdafactorOptions::threshold},
                           not_positive);
  check_refused<Adafactor>("[adafactor]", {&AdafactorOptions::weight_decay}, negative);

  check_refused<Muon>("[muon]", {&MuonOptions::momentum}, no_fraction);
  check_refused<Muon>("[muon]", {&MuonOptions::weight_decay}, negative);
  CHECK_THROWS_WITH_AS(Muon({{"layer.bias", parameter({1, 2})}}),
                       Contains("[muon] parameter 'layer.bias' of [2] must have at least two axes"),
                       ShapeError);
}

}  // namespace
}  // namespace capstan::optim

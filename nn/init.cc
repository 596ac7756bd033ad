#include "nn/init.h"

#include <cmath>

#include "autograd/linalg.h"
#include "autograd/node.h"
#include "autograd/views.h"
#include "core/raise.h"

namespace capstan::nn {

Tensor fan_in_uniform(const Shape& shape, int64_t fan_in, Generator& generator) {
  if (fan_in < 1) raise<ValueError>("[init] a layer needs at least one input, got {}", fan_in);
  const double bound = 1 / std::sqrt(static_cast<double>(fan_in));
  return rand(shape, -bound, bound, {}, generator);
}

namespace init {

namespace {

struct Fans {
  double in, out;
};

Fans fans(const char* scheme, const Tensor& weight) {
  check_floating(scheme, weight.dtype());
  if (weight.rank() < 2 || weight.numel() == 0) {
    raise<ShapeError>("[{}] takes a weight [out, in, ...] with elements, got {}", scheme,
                      weight.shape());
  }
  const double elements = static_cast<double>(weight.numel());
  return {elements / static_cast<double>(weight.size(0)),
          elements / static_cast<double>(weight.size(1))};
}

// Uniform and normal numbers of mean 0.
void spread_uniform(const Tensor& weight, double variance, Generator& generator) {
  const double bound = std::sqrt(3 * variance);  // uniform in +-b has the variance b^2 / 3
  uniform(weight, -bound, bound, generator);
}

void spread_normal(const Tensor& weight, double variance, Generator& generator) {
  normal(weight, 0, std::sqrt(variance), generator);
}

double xavier_variance(const char* scheme, const Tensor& weight, double gain) {
  const Fans fan = fans(scheme, weight);
  return gain * gain * 2 / (fan.in + fan.out);
}

double kaiming_variance(const char* scheme, const Tensor& weight, double gain, Fan fan) {
  const Fans both = fans(scheme, weight);
  return gain * gain / (fan == Fan::in ? both.in : both.out);
}

}  // namespace

void constant(const Tensor& tensor, double value) {
  check_floating("constant", tensor.dtype());
  fill_elements(tensor, value);
}

void uniform(const Tensor& tensor, double low, double high, Generator& generator) {
  check_floating("uniform", tensor.dtype());
  if (!(low < high) || !std::isfinite(high - low)) {
    raise<ValueError>("[uniform] low must be below high and both finite, got {} and {}", low, high);
  }
  copy_elements(rand(tensor.shape(), low, high, {tensor.dtype(), tensor.device()}, generator),
                tensor);
}

void normal(const Tensor& tensor, double mean, double deviation, Generator& generator) {
  check_floating("normal", tensor.dtype());
  if (!(deviation >= 0) || !std::isfinite(deviation) || !std::isfinite(mean)) {
    raise<ValueError>(
        "[normal] deviation must be at least 0 and both finite, got mean {} and deviation {}", mean,
        deviation);
  }
  copy_elements(
      randn(tensor.shape(), mean, deviation, {tensor.dtype(), tensor.device()}, generator), tensor);
}

double leaky_relu_gain(double slope) { return std::sqrt(2 / (1 + slope * slope)); }

void xavier_uniform(const Tensor& weight, double gain, Generator& generator) {
  spread_uniform(weight, xavier_variance("xavier_uniform", weight, gain), generator);
}

void xavier_normal(const Tensor& weight, double gain, Generator& generator) {
  spread_normal(weight, xavier_variance("xavier_normal", weight, gain), generator);
}

void kaiming_uniform(const Tensor& weight, double gain, Fan fan, Generator& generator) {
  spread_uniform(weight, kaiming_variance("kaiming_uniform", weight, gain, fan), generator);
}

void kaiming_normal(const Tensor& weight, double gain, Fan fan, Generator& generator) {
  spread_normal(weight, kaiming_variance("kaiming_normal", weight, gain, fan), generator);
}

void orthogonal(const Tensor& weight, double gain, Generator& generator) {
  fans("orthogonal", weight);
  const int64_t rows = weight.size(0), columns = weight.numel() / rows;
  const bool wide = rows < columns;
  const Tensor random = randn({std::max(rows, columns), std::min(rows, columns)}, 0, 1,
                              {weight.dtype(), weight.device()}, generator);
  // r's diagonal is not negative, so that q is uniform among the orthogonal matrices.
  const Tensor q = no_grad([&] { return qr(random).q; });
  copy_elements(reshape(wide ? transpose(q, 0, 1) : q, weight.shape()), weight);
  scale_elements(weight, gain);
}

void truncated_normal(const Tensor& tensor, double mean, double deviation, double low, double high,
                      Generator& generator) {
  check_floating("truncated_normal", tensor.dtype());
  if (!(deviation > 0)) {
    raise<ValueError>("[truncated_normal] deviation must be above 0, got {}", deviation);
  }
  const auto below = [&](double x) {
    return 0.5 * std::erfc((mean - x) / deviation / std::sqrt(2.0));
  };
  if (!(below(high) - below(low) >= 1e-3)) {
    raise<ValueError>(
        "[truncated_normal] less than one number in a thousand of mean {} and deviation {} lies in "
        "[{}, {}]",
        mean, deviation, low, high);
  }
  if (tensor.device().kind == Device::Kind::meta) return;
  std::vector<double> numbers(static_cast<size_t>(tensor.numel()));
  for (double& number : numbers) {
    do {
      const uint64_t words = generator.next();
      number = mean + deviation * unit_normal(static_cast<uint32_t>(words),
                                              static_cast<uint32_t>(words >> 32));
    } while (!(number >= low && number <= high));
  }
  copy_elements(from_vector(numbers, tensor.shape()), tensor);
}

}  // namespace init
}  // namespace capstan::nn

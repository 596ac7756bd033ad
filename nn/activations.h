// Defines the activations as layers, for use in Sequential; elsewhere the functions do as well.
#pragma once

#include "autograd/activations.h"
#include "autograd/functions.h"
#include "autograd/softmax.h"
#include "nn/module.h"

namespace capstan::nn {

struct ReLU : Module {
  CAPSTAN_MODULE(ReLU)
  Tensor forward(const Tensor& x) { return relu(x); }
};

struct ReLU6 : Module {
  CAPSTAN_MODULE(ReLU6)
  Tensor forward(const Tensor& x) { return relu6(x); }
};

struct LeakyReLU : Module {
  explicit LeakyReLU(double slope = 0.01) : slope(slope) {}
  double slope;
  CAPSTAN_MODULE(LeakyReLU)
  Tensor forward(const Tensor& x) { return leaky_relu(x, slope); }
};

/// A slope below 0 that is learned, one or one for each channel of x [n, channels, ...]; it starts
/// at `slope`. weight [channels]. Throws ValueError for less than one channel.
struct PReLU : Module {
  explicit PReLU(int64_t channels = 1, double slope = 0.25);
  Parameter weight;
  CAPSTAN_MODULE(PReLU, weight)
  Tensor forward(const Tensor& x) { return prelu(x, weight); }
};

struct ELU : Module {
  explicit ELU(double alpha = 1) : alpha(alpha) {}
  double alpha;
  CAPSTAN_MODULE(ELU)
  Tensor forward(const Tensor& x) { return elu(x, alpha); }
};

struct SELU : Module {
  CAPSTAN_MODULE(SELU)
  Tensor forward(const Tensor& x) { return selu(x); }
};

struct CELU : Module {
  explicit CELU(double alpha = 1) : alpha(alpha) {}
  double alpha;
  CAPSTAN_MODULE(CELU)
  Tensor forward(const Tensor& x) { return celu(x, alpha); }
};

struct GELU : Module {
  CAPSTAN_MODULE(GELU)
  Tensor forward(const Tensor& x) { return gelu(x); }
};

/// The approximation with tanh.
struct GELUTanh : Module {
  CAPSTAN_MODULE(GELUTanh)
  Tensor forward(const Tensor& x) { return gelu_tanh(x); }
};

struct SiLU : Module {
  CAPSTAN_MODULE(SiLU)
  Tensor forward(const Tensor& x) { return silu(x); }
};

struct Mish : Module {
  CAPSTAN_MODULE(Mish)
  Tensor forward(const Tensor& x) { return mish(x); }
};

struct Hardtanh : Module {
  explicit Hardtanh(double low = -1, double high = 1) : low(low), high(high) {}
  double low, high;
  CAPSTAN_MODULE(Hardtanh)
  Tensor forward(const Tensor& x) { return hardtanh(x, low, high); }
};

struct Hardsigmoid : Module {
  CAPSTAN_MODULE(Hardsigmoid)
  Tensor forward(const Tensor& x) { return hardsigmoid(x); }
};

struct Hardswish : Module {
  CAPSTAN_MODULE(Hardswish)
  Tensor forward(const Tensor& x) { return hardswish(x); }
};

struct Softplus : Module {
  explicit Softplus(double beta = 1) : beta(beta) {}
  double beta;
  CAPSTAN_MODULE(Softplus)
  Tensor forward(const Tensor& x) { return softplus(x, beta); }
};

struct Tanh : Module {
  CAPSTAN_MODULE(Tanh)
  Tensor forward(const Tensor& x) { return capstan::tanh(x); }
};

struct Sigmoid : Module {
  CAPSTAN_MODULE(Sigmoid)
  Tensor forward(const Tensor& x) { return sigmoid(x); }
};

struct LogSigmoid : Module {
  CAPSTAN_MODULE(LogSigmoid)
  Tensor forward(const Tensor& x) { return log_sigmoid(x); }
};

struct Softsign : Module {
  CAPSTAN_MODULE(Softsign)
  Tensor forward(const Tensor& x) { return softsign(x); }
};

/// Halves the axis: one half gates the other.
struct GLU : Module {
  explicit GLU(int64_t axis = -1) : axis(axis) {}
  int64_t axis;
  CAPSTAN_MODULE(GLU)
  Tensor forward(const Tensor& x) { return glu(x, axis); }
};

struct Softmax : Module {
  explicit Softmax(int64_t axis = -1) : axis(axis) {}
  int64_t axis;
  CAPSTAN_MODULE(Softmax)
  Tensor forward(const Tensor& x) { return softmax(x, axis); }
};

struct LogSoftmax : Module {
  explicit LogSoftmax(int64_t axis = -1) : axis(axis) {}
  int64_t axis;
  CAPSTAN_MODULE(LogSoftmax)
  Tensor forward(const Tensor& x) { return log_softmax(x, axis); }
};

}  // namespace capstan::nn

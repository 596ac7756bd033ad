// Implements DataParallel. Reading order: data_parallel(), at the end; above it are its steps.
#include "distributed/data_parallel.h"

#include <algorithm>
#include <exception>
#include <thread>

#include "autograd/autocast.h"
#include "autograd/elementwise.h"
#include "autograd/engine.h"
#include "autograd/rearrange.h"
#include "autograd/record.h"
#include "autograd/views.h"
#include "core/create.h"
#include "core/raise.h"
#include "core/random.h"
#include "distributed/comm/parts.h"

namespace capstan::distributed::detail {
namespace {

/// One device's share of a call, kept until backward.
struct Part {
  Replica replica;
  Device device;
  int64_t samples = 0;
  Tensor x, y;
};

/// A copy on `device`, off the tape.
Tensor copy_to(const Tensor& tensor, Device device) {
  const Tensor copy = empty(tensor.shape(), {tensor.dtype(), device});
  copy_elements(tensor, copy);
  return copy;
}

/// As copy_to, and counts what moves; what is on the device already stays where it is.
Tensor move_to(const Tensor& tensor, Device device, int64_t& bytes) {
  if (tensor.device() == device) return detach(tensor);
  bytes += tensor.bytes();
  return copy_to(tensor, device);
}

std::vector<Tensor> trained_parameters(nn::Module& model) {
  std::vector<Tensor> trained;
  for (const auto& [_, parameter] : model.parameters()) {
    if (parameter.requires_grad()) trained.push_back(parameter);
  }
  return trained;
}

int64_t model_bytes(nn::Module& model) {
  int64_t bytes = 0;
  for (const auto& [_, parameter] : model.parameters()) bytes += parameter.bytes();
  for (const auto& [_, buffer] : model.buffers()) bytes += buffer.bytes();
  return bytes;
}

/// Runs f for each part, in a thread each. Throws what the first of them threw.
template <class F>
void in_parallel(std::vector<Part>& parts, const F& f) {
  std::vector<std::exception_ptr> errors(parts.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < parts.size(); ++i) {
    threads.emplace_back([&, i] {
      try {
        f(parts[i], i);
      } catch (...) {
        errors[i] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

/// Scatters x and replicates the model.
std::vector<Part> make_parts(const Tensor& x, const Replica& primary,
                             const std::function<Replica()>& replicate,
                             const std::vector<Device>& devices, DataParallelTraffic& traffic) {
  const Parts rows = even_parts(x.size(0), static_cast<int>(devices.size()));
  std::vector<Part> parts;
  for (size_t i = 0; i < devices.size(); ++i) {
    const int64_t samples = rows[i + 1] - rows[i];
    if (samples == 0 && i > 0) break;
    Part part{i == 0 ? primary : replicate(), devices[i], samples, {}, {}};
    if (i > 0) {
      part.replica.model->to(devices[i]);  // the copy
      traffic.models += model_bytes(*part.replica.model);
    }
    part.x = move_to(slice(detach(x), 0, rows[i], rows[i + 1]), devices[i], traffic.inputs);
    if (x.requires_grad()) require_grad(part.x);
    parts.push_back(std::move(part));
  }
  return parts;
}

void run_forward(std::vector<Part>& parts) {
  const Generator random(default_generator().next());
  const bool recording = grad_enabled();  // modes are a thread's own, so they are handed on
  const std::optional<Dtype> narrow = autocast_dtype();
  in_parallel(parts, [&](Part& part, size_t i) {
    default_generator() = random.fork(i);
    const GradMode mode(recording);
    const Autocast autocast(narrow);
    part.y = part.replica.forward(part.x);
    if (part.y.rank() < 1 || part.y.size(0) != part.samples) {
      raise<ShapeError>("[data_parallel] the model must give a row for each of {} samples, got {}",
                        part.samples, part.y.shape());
    }
  });
}

Tensor gather(const std::vector<Part>& parts, int64_t& bytes) {
  std::vector<Tensor> outputs;
  for (const Part& part : parts) outputs.push_back(move_to(part.y, parts[0].device, bytes));
  return outputs.size() == 1 ? outputs[0] : cat(outputs);
}

/// Makes the primary's averaged buffers the mean of all replicas'.
void average_buffers(const std::vector<Part>& parts) {
  nn::Module& model = *parts[0].replica.model;
  if (parts.size() == 1 || !model.training()) return;
  std::vector<std::vector<std::pair<std::string, nn::Buffer>>> buffers;
  double samples = 0;
  for (const Part& part : parts) {
    buffers.push_back(part.replica.model->buffers());
    samples += static_cast<double>(part.samples);
  }
  for (size_t b = 0; b < buffers[0].size(); ++b) {
    const nn::Buffer& target = buffers[0][b].second;
    if (target.policy != nn::BufferPolicy::averaged) continue;
    Tensor total = zeros(target.shape(), {Dtype::float64, target.device()});
    for (size_t i = 0; i < parts.size(); ++i) {
      const double share = static_cast<double>(parts[i].samples) / samples;
      const Tensor here = copy_to(buffers[i][b].second, target.device());
      total = total + cast(here, Dtype::float64) * share;
    }
    copy_elements(total, target);
  }
}

/// The gradients of x, undefined unless wanted, and of the trained parameters, on the primary.
std::vector<Tensor> run_backward(std::vector<Part>& parts, const Tensor& grad, bool x_wanted,
                                 DataParallelTraffic& traffic) {
  std::vector<Tensor> seeds;
  int64_t row = 0;
  for (const Part& part : parts) {
    const int64_t first = std::exchange(row, row + part.samples);
    seeds.push_back(move_to(slice(detach(grad), 0, first, row), part.device, traffic.outputs));
  }
  std::vector<std::vector<Tensor>> found(parts.size());
  in_parallel(parts, [&](Part& part, size_t i) {
    std::vector<Tensor> targets = trained_parameters(*part.replica.model);
    if (x_wanted) targets.push_back(part.x);
    if (!part.y.requires_grad()) {
      for (const Tensor& target : targets) found[i].push_back(zeros_like(target));
      return;
    }
    found[i] =
        capstan::grad({part.y}, targets,
                      {.seeds = {seeds[i]}, .retain_graph = true, .unreached = Unreached::zeros});
  });
  std::vector<Tensor> x_grads, sums(1);
  for (size_t i = 0; i < parts.size(); ++i) {
    if (x_wanted) {
      x_grads.push_back(move_to(found[i].back(), parts[0].device, traffic.inputs));
      found[i].pop_back();
    }
    for (size_t p = 0; p < found[i].size(); ++p) {
      const Tensor here = move_to(found[i][p], parts[0].device, traffic.gradients);
      if (i == 0) {
        sums.push_back(here);
      } else {
        sums[p + 1] = sums[p + 1] + here;
      }
    }
  }
  if (x_wanted) sums[0] = cat(x_grads);
  return sums;
}

}  // namespace

void check_devices(nn::Module& model, const std::vector<Device>& devices) {
  if (devices.empty()) raise<ValueError>("[data_parallel] needs at least one device");
  for (size_t i = 0; i < devices.size(); ++i) {
    if (std::find(devices.begin(), devices.begin() + i, devices[i]) != devices.begin() + i) {
      raise<ValueError>("[data_parallel] {} is named twice", devices[i]);
    }
  }
  for (const auto& [name, parameter] : model.parameters()) {
    if (parameter.device() == devices[0]) continue;
    raise<DeviceError>("[data_parallel] the model must be on the first device, {}; '{}' is on {}",
                       devices[0], name, parameter.device());
  }
}

Tensor data_parallel(const Tensor& x, const Replica& primary,
                     const std::function<Replica()>& replicate, const std::vector<Device>& devices,
                     const std::shared_ptr<DataParallelTraffic>& traffic) {
  if (x.rank() == 0) raise<ShapeError>("[data_parallel] an input without axes cannot be scattered");
  if (!(x.device() == devices[0])) {
    raise<DeviceError>("[data_parallel] the input must be on the first device, {}; it is on {}",
                       devices[0], x.device());
  }
  std::vector<Part> parts = make_parts(x, primary, replicate, devices, *traffic);
  run_forward(parts);
  const Tensor y = no_grad([&] { return gather(parts, traffic->outputs); });
  no_grad([&] { average_buffers(parts); });

  const std::vector<Tensor> trained = trained_parameters(*primary.model);
  std::vector<const Tensor*> inputs{&x};
  for (const Tensor& parameter : trained) inputs.push_back(&parameter);
  return record("data_parallel", y, inputs,
                [parts, traffic, x_wanted = x.requires_grad()](const Tensor& grad) mutable {
                  return run_backward(parts, grad, x_wanted, *traffic);
                });
}

}  // namespace capstan::distributed::detail

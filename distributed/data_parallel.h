// Defines DataParallel: one process, one thread of control, several devices. It is kept to be read
// beside ddp.h, which does the same job better.
//
//   DataParallel<Net> parallel(model, {Device::cpu(0), Device::cpu(1)});
//   Tensor loss = cross_entropy(parallel(x), y);   // y on the first device, the primary
//   backward(loss);                                // gradients are in `model`, as always
//
// One call of it, on n devices:
//
//   scatter     x, cut along axis 0                       (n-1)/n of the input moves
//   replicate   the model, from the primary               (n-1) models
//   forward     on each device, in a thread               -
//   gather      the outputs                               (n-1)/n of the output
//   backward    of its part, on each device, in a thread  (n-1)/n of the output's gradient
//   reduce      the gradients onto the primary            (n-1) models
//
// All of it is one node on the tape: its inputs are x and the parameters, and its backward is the
// last two lines. Nothing outside it need know of the devices, and there are no ranks, no launcher
// and no collectives that could hang. That is its charm, and its price:
//
//   - Replicas live for one step, so the model is copied n-1 times a step, where DDP's, which take
//     the same step from the same start, never move.
//   - The primary alone sends and receives: 2(n-1) models a step through one device. A DDP rank
//     moves 2(n-1)/n, whatever n is.
//   - Gradients move when backward is over; DDP's leave while it runs.
//   - Loss and optimizer run on the primary, while the others wait.
//
// `benchmarks/data_parallel` measures both.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "core/tensor.h"
#include "nn/module.h"

namespace capstan::distributed {

/// Bytes that moved between devices, over all calls so far.
struct DataParallelTraffic {
  int64_t inputs = 0;     // scatter; and their gradients on the way back, if x wants one
  int64_t models = 0;     // replicate
  int64_t outputs = 0;    // gather; and their gradients
  int64_t gradients = 0;  // reduce
};

namespace detail {

/// A model on a device, and how it is called.
struct Replica {
  std::shared_ptr<nn::Module> model;
  std::function<Tensor(const Tensor&)> forward;
};

/// Throws as the constructor of DataParallel does.
void check_devices(nn::Module& model, const std::vector<Device>& devices);

/// The call described above. `replicate` makes a replica that shares the model's numbers, which are
/// then copied. The first device uses `primary` itself.
Tensor data_parallel(const Tensor& x, const Replica& primary,
                     const std::function<Replica()>& replicate, const std::vector<Device>& devices,
                     const std::shared_ptr<DataParallelTraffic>& traffic);

}  // namespace detail

/// Of a model that takes a tensor [n, ...] and gives one [n, ...], a row for each sample.
///
/// A device without samples is left out; an empty batch runs on the primary. Each device draws its
/// random numbers from a stream of its own, which differs from call to call. In training, buffers
/// declared `averaged` become the mean of the replicas', by samples; others keep the primary's. A
/// parameter that the model does not use gets a gradient of 0. Gradients have no gradients.
template <class Model>
class DataParallel {
 public:
  /// Throws ValueError for no device or one named twice, DeviceError unless the model is on the
  /// first. The model must outlive this.
  DataParallel(Model& model, std::vector<Device> devices)
      : model_(model), devices_(std::move(devices)) {
    detail::check_devices(model, devices_);
  }

  /// Throws ShapeError for an input without axes, and for an output that is not a row for each
  /// sample; DeviceError unless x is on the first device; what forward throws on any device.
  Tensor operator()(const Tensor& x) {
    const auto replica = [](std::shared_ptr<Model> model) {
      return detail::Replica{model, [m = model.get()](const Tensor& part) { return (*m)(part); }};
    };
    return detail::data_parallel(
        x, replica(std::shared_ptr<Model>(&model_, [](Model*) {})),
        [&] { return replica(std::make_shared<Model>(model_)); }, devices_, traffic_);
  }

  const DataParallelTraffic& traffic() const { return *traffic_; }

 private:
  Model& model_;
  std::vector<Device> devices_;
  std::shared_ptr<DataParallelTraffic> traffic_ = std::make_shared<DataParallelTraffic>();
};

}  // namespace capstan::distributed

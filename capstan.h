// The whole of Capstan in one include, in the order in which data climbs its floors.
#pragma once

// Floor 1, core: tensors, devices, random numbers, threads.
#include "core/create.h"
#include "core/error.h"
#include "core/random.h"
#include "core/safetensors.h"
#include "core/tensor.h"
#include "core/threads.h"

// Floor 2, autograd: the tape and the differentiable operations.
#include "autograd/attention.h"
#include "autograd/convolution.h"
#include "autograd/dropout.h"
#include "autograd/einsum.h"
#include "autograd/elementwise.h"
#include "autograd/engine.h"
#include "autograd/gradcheck.h"
#include "autograd/indexing.h"
#include "autograd/linalg.h"
#include "autograd/losses.h"
#include "autograd/matmul.h"
#include "autograd/normalization.h"
#include "autograd/pooling.h"
#include "autograd/rearrange.h"
#include "autograd/record.h"
#include "autograd/reduce.h"
#include "autograd/softmax.h"
#include "autograd/sort.h"
#include "autograd/statistics.h"
#include "autograd/views.h"

// Floor 3, nn: modules and layers.
#include "nn/conv2d.h"
#include "nn/layers.h"
#include "nn/linear.h"
#include "nn/module.h"
#include "nn/sequential.h"
#include "nn/state.h"

// Floor 4, optim: optimizers, schedules, clipping, averages, loss scaling.
#include "optim/adadelta.h"
#include "optim/adafactor.h"
#include "optim/adagrad.h"
#include "optim/adam.h"
#include "optim/adamw.h"
#include "optim/average.h"
#include "optim/clip.h"
#include "optim/grad_scaler.h"
#include "optim/lamb.h"
#include "optim/lars.h"
#include "optim/lbfgs.h"
#include "optim/lion.h"
#include "optim/muon.h"
#include "optim/plateau.h"
#include "optim/rmsprop.h"
#include "optim/schedule.h"
#include "optim/sgd.h"

// Floor 5, data: datasets and the loader.
#include "data/dataset.h"
#include "data/fashion_mnist.h"
#include "data/loader.h"

// Floor 6, distributed: communicators and strategies.
#include "distributed/comm/communicator.h"
#include "distributed/comm/launch.h"
#include "distributed/ddp.h"

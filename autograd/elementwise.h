// The element-wise operations, all three families.
#pragma once

#include "autograd/activations.h"  // relu, gelu, ...: functions with parameters, for layers
#include "autograd/arithmetic.h"   // two tensors: add, power, less, where, ..., and the operators
#include "autograd/functions.h"    // one tensor: exp, sin, floor, isnan, ...

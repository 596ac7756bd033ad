// Defines meta_backend(), the kernels of the device "meta": they compute nothing, because the
// layers above have already made the output's shape, and a meta tensor is nothing but its shape.
// They do count what they would cost (core/costs.h).
#pragma once

#include "core/backend.h"

namespace capstan {

Backend& meta_backend();

}  // namespace capstan

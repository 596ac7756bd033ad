// Defines meta_backend(), the kernels of the device "meta": they do nothing, because the layers
// above have already made the output's shape, and a meta tensor is nothing but its shape.
#pragma once

#include "core/backend.h"

namespace capstan {

Backend& meta_backend();

}  // namespace capstan

// Declares what the rest of the framework may ask about GPUs without any CUDA header: how many
// there are, and a sentence about them. device.cu answers under --config=cuda, device_stub.cc
// otherwise.
#pragma once

#include <string>

namespace capstan {

/// Number of usable CUDA devices; 0 without a driver, without a device, or without --config=cuda.
int cuda_device_count();

/// One line for people: the runtime and its devices, or why there are none and what to do about it.
std::string cuda_description();

}  // namespace capstan

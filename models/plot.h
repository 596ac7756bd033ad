// Defines write_plot(), which draws a training run as a picture.
#pragma once

#include <string>

#include "models/metrics.h"

namespace capstan::models {

/// Writes an SVG file, atomically: the training loss by step, as it was and smoothed, on the left
/// axis, and the accuracy, under its name, in percent on the right one. Throws IoError if the disk
/// refuses.
void write_plot(const std::string& path, const Metrics& metrics, const std::string& title,
                const std::string& accuracy);

}  // namespace capstan::models

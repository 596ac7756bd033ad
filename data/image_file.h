// Defines read_image(), which decodes PNG and JPEG files with libpng and libjpeg-turbo.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "core/tensor.h"

namespace capstan::data {

/// Reads an image as uint8 [3, height, width]: red, green, blue. The contents say which format it
/// is. Grey images get three equal channels; transparency is dropped; the colours are sRGB; a
/// camera's note how to turn the picture is not followed. Throws IoError if the file is missing,
/// damaged, cut, of another format, or of more than 2^27 pixels.
Tensor read_image(const std::string& path);

/// The same for the contents of a file; `name` stands for the path in errors.
Tensor decode_image(const std::string& name, std::span<const std::byte> bytes);

}  // namespace capstan::data

#include "data/image_file.h"

#include <png.h>
#include <turbojpeg.h>

#include <memory>
#include <vector>

#include "core/raise.h"
#include "data/bytes.h"

namespace capstan::data {
namespace {

constexpr int64_t kMostPixels = int64_t{1} << 27;  // a few bytes of a file may promise any number

void check_size(const std::string& name, int64_t height, int64_t width) {
  if (height < 1 || width < 1 || height > kMostPixels / width) {
    raise<IoError>("[read_image] {}: its header promises {} x {} pixels, between 1 and {} are read",
                   name, height, width, kMostPixels);
  }
}

/// Rows of pixels of `stride` bytes, of which the first three are red, green and blue.
Tensor planes_of(const std::vector<uint8_t>& pixels, int64_t stride, int64_t height,
                 int64_t width) {
  const Tensor out = empty({3, height, width}, {.dtype = Dtype::uint8});
  auto* plane = out.mutable_data<uint8_t>();
  for (int64_t channel = 0; channel < 3; ++channel) {
    for (int64_t i = 0; i < height * width; ++i) {
      *plane++ = pixels[static_cast<size_t>(i * stride + channel)];
    }
  }
  return out;
}

Tensor decode_png(const std::string& name, std::span<const std::byte> bytes) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  const std::unique_ptr<png_image, void (*)(png_image*)> owner(&image, png_image_free);
  const auto check = [&](int done) {
    if (!done) raise<IoError>("[read_image] {}: libpng says \"{}\"", name, image.message);
  };
  check(png_image_begin_read_from_memory(&image, bytes.data(), bytes.size()));
  check_size(name, image.height, image.width);
  image.format = PNG_FORMAT_RGBA;  // without the A, libpng would blend with a background
  image.flags |= PNG_IMAGE_FLAG_16BIT_sRGB;
  std::vector<uint8_t> pixels(PNG_IMAGE_SIZE(image));
  check(png_image_finish_read(&image, nullptr, pixels.data(), 0, nullptr));
  return planes_of(pixels, 4, image.height, image.width);
}

Tensor decode_jpeg(const std::string& name, std::span<const std::byte> bytes) {
  const std::unique_ptr<void, int (*)(void*)> decoder(tjInitDecompress(), tjDestroy);
  const auto check = [&](int status) {
    if (status != 0) {
      raise<IoError>("[read_image] {}: libjpeg says \"{}\"", name, tjGetErrorStr2(decoder.get()));
    }
  };
  const auto* file = reinterpret_cast<const unsigned char*>(bytes.data());
  int width = 0, height = 0, subsampling = 0, colours = 0;
  check(tjDecompressHeader3(decoder.get(), file, bytes.size(), &width, &height, &subsampling,
                            &colours));
  check_size(name, height, width);
  std::vector<uint8_t> pixels(static_cast<size_t>(height) * static_cast<size_t>(width) * 3);
  check(tjDecompress2(decoder.get(), file, bytes.size(), pixels.data(), width, 0, height, TJPF_RGB,
                      TJFLAG_STOPONWARNING | TJFLAG_LIMITSCANS | TJFLAG_ACCURATEDCT));
  return planes_of(pixels, 3, height, width);
}

bool starts_with(std::span<const std::byte> bytes, std::string_view magic) {
  return bytes.size() >= magic.size() && std::memcmp(bytes.data(), magic.data(), magic.size()) == 0;
}

}  // namespace

Tensor decode_image(const std::string& name, std::span<const std::byte> bytes) {
  if (starts_with(bytes, "\x89PNG")) return decode_png(name, bytes);
  if (starts_with(bytes, "\xff\xd8")) return decode_jpeg(name, bytes);
  raise<IoError>("[read_image] {}: expected a PNG or JPEG file, its {} bytes begin as neither",
                 name, bytes.size());
}

Tensor read_image(const std::string& path) {
  const MappedFile file(path);
  return decode_image(path, file.bytes());
}

}  // namespace capstan::data

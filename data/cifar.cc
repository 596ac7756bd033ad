#include "data/cifar.h"

#include <algorithm>

#include "core/raise.h"
#include "data/bytes.h"

namespace capstan::data {
namespace {

constexpr int64_t kSide = 32, kChannels = 3, kPixels = kChannels * kSide * kSide;

/// Each file is records of `label_bytes` labels, of which number `chosen` counts, and the pixels.
ImageDataset read_records(const char* operation, const std::string& directory,
                          const std::vector<std::string>& names, int64_t label_bytes,
                          int64_t chosen, int64_t classes,
                          const std::vector<Normalization>& normalizations) {
  const int64_t record = label_bytes + kPixels;
  std::vector<uint8_t> labels, pixels;
  for (const std::string& name : names) {
    const MappedFile file(directory + "/" + name);
    const int64_t size = std::ssize(file.bytes());
    if (size % record != 0) {
      raise<IoError>(
          "[{}] {}: expected records of {} bytes, found {} bytes: {} records and {} more",
          operation, file.path(), record, size, size / record, size % record);
    }
    for (int64_t begin = 0; begin < size; begin += record) {
      const auto* bytes = reinterpret_cast<const uint8_t*>(file.bytes().data()) + begin;
      if (bytes[chosen] >= classes) {
        raise<IoError>("[{}] {}: labels must be in [0, {}), record {} has {}", operation,
                       file.path(), classes, begin / record, bytes[chosen]);
      }
      labels.push_back(bytes[chosen]);
      pixels.insert(pixels.end(), bytes + label_bytes, bytes + record);
    }
  }
  const int64_t count = std::ssize(labels);
  return ImageDataset(from_vector(pixels, {count, kChannels, kSide, kSide}),
                      from_vector(labels, {count}), classes, normalizations);
}

}  // namespace

ImageDataset cifar10(const std::string& directory, Split split) {
  std::vector<std::string> names{"test_batch.bin"};
  if (split == Split::train) {
    names.clear();
    for (int i = 1; i <= 5; ++i) names.push_back(fmt::format("data_batch_{}.bin", i));
  }
  return read_records("cifar10", directory, names, 1, 0, 10,
                      {{.mean = 0.4914, .deviation = 0.2470},
                       {.mean = 0.4822, .deviation = 0.2435},
                       {.mean = 0.4465, .deviation = 0.2616}});
}

ImageDataset cifar100(const std::string& directory, Split split, Cifar100Labels labels) {
  const bool fine = labels == Cifar100Labels::fine;
  return read_records("cifar100", directory, {split == Split::train ? "train.bin" : "test.bin"}, 2,
                      fine ? 1 : 0, fine ? 100 : 20,
                      {{.mean = 0.5071, .deviation = 0.2673},
                       {.mean = 0.4865, .deviation = 0.2564},
                       {.mean = 0.4409, .deviation = 0.2762}});
}

}  // namespace capstan::data

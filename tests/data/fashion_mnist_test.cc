#include "data/fashion_mnist.h"

#include <doctest/doctest.h>

#include <numeric>

#include "core/error.h"
#include "tests/data/idx_files.h"
#include "tests/testing/files.h"

using namespace capstan;
using data::fashion_mnist;
using data::Split;
using testing::gzip;
using testing::idx_bytes;
using testing::TemporaryFolder;
using testing::write_file;

namespace {

constexpr const char* kTestImages = "t10k-images-idx3-ubyte";
constexpr const char* kTestLabels = "t10k-labels-idx1-ubyte";

void check_refused(const TemporaryFolder& folder, const std::string& reason) {
  INFO("expected: " << reason);
  CHECK_THROWS_WITH_AS(fashion_mnist(folder.path(), Split::test), doctest::Contains(reason.c_str()),
                       IoError);
}

}  // namespace

TEST_CASE("small files of the same form") {
  const TemporaryFolder folder;
  check_refused(folder,
                std::string(kTestImages) + ".gz exists; Debian's package dataset-fashion-mnist");
  const std::string pixels = std::string(784, '\xff') + std::string(784, '\0');
  write_file(folder.file(kTestImages), idx_bytes(0x08, {2, 28, 28}, pixels));
  check_refused(folder, kTestLabels);
  write_file(folder.file(kTestLabels) + ".gz", gzip(idx_bytes(0x08, {2}, "\x03\x09")));

  const auto set = fashion_mnist(folder.path(), Split::test);
  const auto batch = set.batch(std::vector<int64_t>{0, 1});
  CHECK(batch.inputs.shape() == Shape{2, 1, 28, 28});
  CHECK(batch.inputs.to_vector<float>().front() == doctest::Approx((1 - 0.286) / 0.353));
  CHECK(batch.inputs.to_vector<float>().back() == doctest::Approx(-0.286 / 0.353));
  CHECK(batch.labels.to_vector<int64_t>() == std::vector<int64_t>{3, 9});
  CHECK_THROWS_WITH_AS(fashion_mnist(folder.path(), Split::train),
                       doctest::Contains("train-images-idx3-ubyte"), IoError);

  write_file(folder.file(kTestLabels), idx_bytes(0x08, {3}, "\x03\x09\x01"));
  check_refused(folder, "got 2 samples and 3 labels");
  write_file(folder.file(kTestLabels), idx_bytes(0x08, {2}, "\x03\x0a"));
  check_refused(folder, "labels must be in [0, 10), label 1 is 10");
  write_file(folder.file(kTestImages), idx_bytes(0x08, {2, 7, 112}, pixels));
  check_refused(folder, "expected images of shape [N, 28, 28], found [2, 7, 112]");
}

TEST_CASE("the real set, where it is installed") {
  if (!std::filesystem::exists(data::kFashionMnistDirectory)) {
    MESSAGE("skipped: no " << data::kFashionMnistDirectory);
    return;
  }
  for (const auto& [split, size] : {std::pair(Split::train, 60'000), {Split::test, 10'000}}) {
    const auto set = fashion_mnist(data::kFashionMnistDirectory, split);
    REQUIRE(set.size() == size);
    std::vector<int64_t> all(size);
    std::iota(all.begin(), all.end(), 0);
    const auto batch = set.batch(all);
    std::vector<int64_t> per_class(10);
    for (int64_t label : batch.labels.to_vector<int64_t>()) ++per_class[label];
    CHECK(per_class == std::vector<int64_t>(10, size / 10));

    double sum = 0, squares = 0;
    const auto* inputs = batch.inputs.data<float>();
    for (int64_t i = 0; i < batch.inputs.numel(); ++i) {
      sum += inputs[i];
      squares += double{inputs[i]} * inputs[i];
    }
    const double mean = sum / batch.inputs.numel();
    CHECK(mean == doctest::Approx(0).epsilon(0.01));
    CHECK(squares / batch.inputs.numel() - mean * mean == doctest::Approx(1).epsilon(0.02));
  }
}

#include "data/cifar.h"

#include <doctest/doctest.h>

#include <fstream>

#include "core/error.h"
#include "tests/testing/files.h"

using namespace capstan;
using data::cifar10;
using data::cifar100;
using data::Split;
using testing::TemporaryFolder;
using testing::write_file;

namespace {

using Indices = std::vector<int64_t>;

/// A record whose pixels are `red`, `green` and `blue`.
std::string record(const std::string& labels, char red, char green, char blue) {
  return labels + std::string(1024, red) + std::string(1024, green) + std::string(1024, blue);
}

}  // namespace

TEST_CASE("CIFAR-10: five files of training, one of test, normalised by colour") {
  const TemporaryFolder folder;
  for (int i = 1; i <= 5; ++i) {
    write_file(folder.file("data_batch_" + std::to_string(i) + ".bin"),
               record({static_cast<char>(i)}, 0, 0, 0) + record({9}, '\xff', 51, 102));
  }
  write_file(folder.file("test_batch.bin"), record({3}, 1, 2, 3));
  CHECK(cifar10(folder.path(), Split::test).size() == 1);
  const data::ImageDataset train = cifar10(folder.path());
  CHECK(train.size() == 10);
  CHECK(train.channels() == 3);
  const data::Batch batch = train.batch(Indices{1, 8});
  CHECK(batch.labels.to_vector<int64_t>() == std::vector<int64_t>{9, 5});
  CHECK(batch.inputs.shape() == Shape{2, 3, 32, 32});
  const auto inputs = batch.inputs.to_vector<float>();
  CHECK(inputs[0] == static_cast<float>((1 - 0.4914) / 0.2470));
  CHECK(inputs[1024] == static_cast<float>((0.2 - 0.4822) / 0.2435));
  CHECK(inputs[3071] == static_cast<float>((0.4 - 0.4465) / 0.2616));
  CHECK(inputs[3072] == static_cast<float>(-0.4914 / 0.2470));
}

TEST_CASE("CIFAR-100 has coarse and fine labels") {
  const TemporaryFolder folder;
  write_file(folder.file("train.bin"), record({19, 99}, 0, 0, 0) + record({1, 20}, 0, 0, 0));
  write_file(folder.file("test.bin"), "");
  const auto labels = [](const data::ImageDataset& set) {
    return set.batch(Indices{0, 1}).labels.to_vector<int64_t>();
  };
  CHECK(labels(cifar100(folder.path())) == Indices{99, 20});
  const auto coarse = cifar100(folder.path(), Split::train, data::Cifar100Labels::coarse);
  CHECK(labels(coarse) == Indices{19, 1});
  CHECK(coarse.classes() == 20);
  CHECK(cifar100(folder.path(), Split::test).size() == 0);
}

TEST_CASE("files that are missing, cut or damaged are named") {
  const TemporaryFolder folder;
  CHECK_THROWS_WITH_AS(cifar10(folder.path()), doctest::Contains("data_batch_1.bin"), IoError);
  const std::string path = folder.file("test_batch.bin");
  const auto refused = [&](const std::string& bytes, const std::string& reason) {
    write_file(path, bytes);
    const std::string all = path + ": " + reason;
    CHECK_THROWS_WITH_AS(cifar10(folder.path(), Split::test), doctest::Contains(all.c_str()),
                         IoError);
  };
  const std::string good = record({3}, 1, 2, 3);
  refused(good.substr(1), "expected records of 3073 bytes, found 3072 bytes: 0 records and 3072");
  refused(good + good + "x", "expected records of 3073 bytes, found 6147 bytes: 2 records and 1");
  refused(good + record({10}, 0, 0, 0), "labels must be in [0, 10), record 1 has 10");
}

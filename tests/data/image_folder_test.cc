#include "data/image_folder.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "data/image_file.h"
#include "data/npy.h"
#include "data/resize.h"
#include "tests/testing/files.h"

using namespace capstan;
using data::ImageFolder;
using data::read_image;
using testing::read_file;
using testing::TemporaryFolder;
using testing::write_file;

namespace {

const std::string kFolder = "tests/data/testdata/";
const std::vector<std::string> kNames{"rgb.png", "grey.png", "palette.png",    "alpha.png",
                                      "rgb.jpg", "grey.jpg", "progressive.jpg"};

void check_refused(const std::string& bytes, const std::string& reason) {
  const TemporaryFolder folder;
  const std::string path = folder.file("bad.png");
  write_file(path, bytes);
  const std::string all = path + ": " + reason;
  INFO("expected: " << all);
  CHECK_THROWS_WITH_AS(read_image(path), doctest::Contains(all.c_str()), IoError);
}

}  // namespace

TEST_CASE("images read as Pillow reads them") {
  const auto pixels = data::read_npz(kFolder + "pixels.npz");
  for (const std::string& name : kNames) {
    INFO(name);
    const Tensor image = read_image(kFolder + name), expected = pixels.at(name);
    CHECK(image.dtype() == Dtype::uint8);
    CHECK(image.shape() == Shape{3, 5, 7});
    const auto a = image.to_vector<int>(), b = expected.to_vector<int>();
    int apart = 0;
    for (size_t i = 0; i < a.size(); ++i) apart = std::max(apart, std::abs(a[i] - b[i]));
    CHECK(apart == 0);
  }
}

TEST_CASE("images that are cut or foreign") {
  check_refused("", "expected a PNG or JPEG file, its 0 bytes begin as neither");
  check_refused("GIF89a", "expected a PNG or JPEG file");
  check_refused("\x89PNG", "libpng says");
  check_refused("\xff\xd8", "its header promises 0 x 0 pixels");
  check_refused("\xff\xd8\xff\xc0", "libjpeg says");
  for (const std::string& name : kNames) {
    const std::string whole = read_file(kFolder + name);
    // libpng does not miss the last chunk, IEND, of 12 bytes.
    const size_t needed = name.ends_with("png") ? whole.size() - 16 : whole.size() - 2;
    for (size_t length = 0; length < needed; ++length) {
      INFO(name << " cut to " << length);
      check_refused(whole.substr(0, length), "");
    }
  }
}

TEST_CASE("an image with any byte changed is read or refused") {
  const TemporaryFolder folder;
  const std::string path = folder.file("x");
  for (const std::string& name : kNames) {
    const std::string whole = read_file(kFolder + name);
    for (size_t i = 0; i < whole.size(); ++i) {
      std::string changed = whole;
      changed[i] ^= '\x55';
      write_file(path, changed);
      try {
        const Tensor image = read_image(path);
        CHECK(image.size(0) == 3);
      } catch (const IoError&) {
      }
    }
  }
}

TEST_CASE("sizes that no file of that length should have") {
  std::string huge = read_file(kFolder + "rgb.jpg");
  const size_t frame = huge.find("\xff\xc0");
  huge.replace(frame + 5, 4, "\xff\xdc\xff\xdc");
  check_refused(huge, "its header promises 65500 x 65500 pixels, between 1 and 134217728");
}

TEST_CASE("resizing as Pillow does") {
  const auto planes = data::read_npz(kFolder + "resized.npz");
  const Tensor plane = planes.at("plane");
  for (const auto& [name, expected] : planes) {
    if (name == "plane") continue;
    INFO(name);
    const Tensor resized = data::resize(plane, expected.size(0), expected.size(1));
    CHECK(resized.shape() == expected.shape());
    const auto a = resized.to_vector<double>(), b = expected.to_vector<double>();
    for (size_t i = 0; i < a.size(); ++i) CHECK(a[i] == doctest::Approx(b[i]).epsilon(1e-5));
  }
  CHECK(data::resize(zeros({0, 3, 2, 2}), 5, 4).shape() == Shape{0, 3, 5, 4});
  CHECK_THROWS_AS(data::resize(zeros({3}), 1, 1), ShapeError);
  CHECK_THROWS_AS(data::resize(zeros({3, 0}), 1, 1), ShapeError);
  CHECK_THROWS_AS(data::resize(zeros({3, 3}), 0, 1), ValueError);
  CHECK_THROWS_AS(data::resize(zeros({3, 3}, {.dtype = Dtype::uint8}), 1, 1), DtypeError);
}

TEST_CASE("a folder of folders") {
  namespace fs = std::filesystem;
  const TemporaryFolder folder;
  fs::create_directory(folder.file("dog"));
  fs::create_directory(folder.file("cat"));
  fs::copy(kFolder + "rgb.png", folder.file("dog/b.PNG"));
  fs::copy(kFolder + "grey.jpg", folder.file("dog/a.jpeg"));
  fs::copy(kFolder + "rgb.jpg", folder.file("cat/z.jpg"));
  write_file(folder.file("cat/notes.txt"), "not an image");
  write_file(folder.file("labels.txt"), "not a class");
  const ImageFolder set(folder.path(),
                        {.height = 5, .width = 7, .normalizations = {{.mean = 0.5}}});
  CHECK(set.size() == 3);
  CHECK(set.classes() == std::vector<std::string>{"cat", "dog"});
  CHECK(set.path(1) == folder.file("dog/a.jpeg"));
  const auto batch = set.batch(std::vector<int64_t>{2, 0});
  CHECK(batch.labels.to_vector<int64_t>() == std::vector<int64_t>{1, 0});
  CHECK(batch.inputs.shape() == Shape{2, 3, 5, 7});
  const auto inputs = batch.inputs.to_vector<float>();
  const auto pixels = read_image(kFolder + "rgb.png").to_vector<int>();
  for (size_t i = 0; i < pixels.size(); ++i) {
    CHECK(inputs[i] == doctest::Approx(pixels[i] / 255.0 - 0.5).epsilon(1e-6));
  }
  CHECK(ImageFolder(folder.path()).batch(std::vector<int64_t>{0}).inputs.shape() ==
        Shape{1, 3, 224, 224});
  CHECK_THROWS_AS(set.batch(std::vector<int64_t>{3}), ValueError);

  write_file(folder.file("dog/c.png"), "broken");
  CHECK_THROWS_WITH_AS(ImageFolder(folder.path()).batch(std::vector<int64_t>{3}),
                       doctest::Contains("dog/c.png"), IoError);
}

TEST_CASE("folders and options that are not right") {
  const TemporaryFolder folder;
  CHECK_THROWS_WITH_AS(ImageFolder(folder.file("none")), doctest::Contains("No such file"),
                       IoError);
  CHECK_THROWS_WITH_AS(ImageFolder(folder.path()), doctest::Contains("a folder for each class"),
                       IoError);
  std::filesystem::create_directory(folder.file("cat"));
  CHECK_THROWS_WITH_AS(ImageFolder(folder.path()), doctest::Contains("/cat: expected .png"),
                       IoError);
  CHECK_THROWS_AS(ImageFolder(folder.path(), {.height = 0}), ValueError);
  CHECK_THROWS_AS(ImageFolder(folder.path(), {.normalizations = {{}, {}}}), ValueError);
  CHECK_THROWS_AS(ImageFolder(folder.path(), {.normalizations = {{.deviation = 0}}}), ValueError);
}

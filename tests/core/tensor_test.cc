// Tensors: making them, looking into them, views, copies, text, and what is refused.
#include "core/tensor.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <thread>

#include "core/error.h"
#include "core/random.h"

using namespace capstan;

namespace {

using Ints = std::vector<int64_t>;

}  // namespace

TEST_CASE("an empty handle is only good for being assigned to") {
  Tensor tensor;
  CHECK_FALSE(tensor.defined());
  CHECK_THROWS_WITH_AS(tensor.shape(),
                       "[tensor] this handle is empty: assign a tensor to it before using it",
                       ValueError);
  CHECK_THROWS_AS(tensor.item<float>(), ValueError);
  CHECK(to_string(tensor) == "empty handle");
  tensor = ones({2});
  CHECK(tensor.defined());
}

TEST_CASE("copying a handle shares the elements") {
  const Tensor tensor = zeros({3});
  const Tensor other = tensor;
  CHECK(other.same(tensor));
  other.mutable_data<float>()[1] = 5;
  CHECK(tensor.to_vector<float>() == std::vector<float>{0, 5, 0});
  const Tensor view = view_of(tensor, tensor.layout());
  CHECK_FALSE(view.same(tensor));
  CHECK(view.data<float>() == tensor.data<float>());
}

TEST_CASE("what a tensor says about itself") {
  const Tensor tensor = empty({2, 3}, {.dtype = Dtype::float64, .device = Device::cpu(1)});
  CHECK(tensor.rank() == 2);
  CHECK(tensor.size(0) == 2);
  CHECK(tensor.size(-1) == 3);
  CHECK(tensor.numel() == 6);
  CHECK(tensor.bytes() == 48);
  CHECK(tensor.dtype() == Dtype::float64);
  CHECK(tensor.device() == Device::cpu(1));
  CHECK(tensor.strides() == Strides{3, 1});
  CHECK(tensor.is_contiguous());
  CHECK_FALSE(tensor.requires_grad());
  CHECK_FALSE(tensor.has_grad());
  CHECK_THROWS_AS(tensor.size(2), ShapeError);
  CHECK_THROWS_WITH_AS(tensor.grad(),
                       "[grad] this tensor, of shape [2, 3], does not require a gradient",
                       GradientError);
  const Tensor like = empty_like(view_of(tensor, tensor.layout().transposed(0, 1)));
  CHECK(like.shape() == Shape{3, 2});
  CHECK(like.is_contiguous());
  CHECK(like.dtype() == Dtype::float64);
  CHECK(like.device() == Device::cpu(1));
}

TEST_CASE("a fresh tensor under another shape is the same tensor") {
  const Tensor fresh = arange(6);
  const Tensor shaped = reshaped(fresh, {2, 3});
  CHECK(shaped.same(fresh));
  CHECK(shaped.shape() == Shape{2, 3});
  CHECK(shaped.is_contiguous());
}

TEST_CASE("the gradient of a leaf that no backward pass has reached") {
  const Tensor leaf = ones({2});
  leaf.body().node = make_ref<TapeNode>();
  CHECK(leaf.requires_grad());
  CHECK_FALSE(leaf.has_grad());
  CHECK_THROWS_WITH_AS(leaf.grad(),
                       "[grad] no gradient has reached this tensor, of shape [2]: only leaves keep "
                       "one, after a backward pass",
                       GradientError);
}

TEST_CASE("full, zeros, ones, scalar and arange in every dtype") {
  for (Dtype dtype : kDtypes) {
    CAPTURE(to_string(dtype));
    const TensorOptions options{.dtype = dtype};
    CHECK(zeros({2, 2}, options).to_vector<int64_t>() == Ints{0, 0, 0, 0});
    CHECK(ones({3}, options).to_vector<int64_t>() == Ints{1, 1, 1});
    CHECK(full({0, 3}, 1, options).to_vector<int64_t>().empty());
    CHECK(scalar(1, options).item<int64_t>() == 1);
    CHECK(scalar(1, options).rank() == 0);
    CHECK(arange(2, options).to_vector<int64_t>() == Ints{0, 1});
    CHECK(arange(0, options).shape() == Shape{0});
    CHECK(arange(2, options).dtype() == dtype);
  }
  CHECK(arange(4).to_vector<int64_t>() == Ints{0, 1, 2, 3});
  CHECK(arange(3, {.dtype = Dtype::float32, .device = Device::cpu(1)}).device() == Device::cpu(1));
  CHECK(full({1}, -0.5).item<double>() == -0.5);
  CHECK(std::isnan(full({1}, std::nan("")).item<float>()));
}

TEST_CASE("values that a dtype cannot hold are refused") {
  CHECK_THROWS_WITH_AS(full({2}, 256, {.dtype = Dtype::uint8}),
                       "[fill] uint8 holds whole numbers from 0 to 255, got 256", ValueError);
  CHECK_THROWS_AS(full({2}, -1, {.dtype = Dtype::uint8}), ValueError);
  CHECK_THROWS_AS(full({2}, 0.5, {.dtype = Dtype::int64}), ValueError);
  CHECK_THROWS_AS(full({2}, 0x1p63, {.dtype = Dtype::int64}), ValueError);
  CHECK_THROWS_AS(full({2}, std::nan(""), {.dtype = Dtype::int32}), ValueError);
  CHECK_THROWS_AS(arange(257, {.dtype = Dtype::uint8}), ValueError);
  CHECK(arange(256, {.dtype = Dtype::uint8}).to_vector<int64_t>()[255] == 255);
  CHECK(full({1}, -0x1p63, {.dtype = Dtype::int64}).item<int64_t>() ==
        std::numeric_limits<int64_t>::min());
  CHECK(full({1}, 0.5, {.dtype = Dtype::boolean}).item<bool>());
}

TEST_CASE("shapes that cannot be") {
  CHECK_THROWS_WITH_AS(empty({2, -1}), "[empty] sizes must not be negative, got [2, -1]",
                       ShapeError);
  CHECK_THROWS_WITH_AS(
      empty({int64_t{1} << 61}),
      "[empty] [2305843009213693952] of float32 has more bytes than 63 bits can count", ShapeError);
  CHECK_THROWS_AS(empty({int64_t{1} << 61}, {.device = Device::meta()}), ShapeError);
  CHECK_THROWS_AS(empty({int64_t{1} << 40, int64_t{1} << 40}), ShapeError);
  CHECK_THROWS_WITH_AS(arange(-1), "[arange] count must not be negative, got -1", ShapeError);
  CHECK_THROWS_WITH_AS(from_vector<float>({1, 2, 3}, {2, 2}),
                       "[from_vector] 3 values do not fill shape [2, 2]", ShapeError);
  CHECK_THROWS_AS(from_vector<float>({1, 2}, {-1, -2}), ShapeError);
}

TEST_CASE("from_vector and to_vector in every type, with conversion") {
  const auto round_trip = []<class T>(T) {
    const std::vector<T> values{T(0), T(1), T(7), T(1), T(0), T(3)};
    const Tensor tensor = from_vector(values, {2, 3});
    CHECK(tensor.dtype() == dtype_of<T>());
    CHECK(tensor.to_vector<T>() == values);
    CHECK(tensor.to_vector<double>() == std::vector<double>(values.begin(), values.end()));
    CHECK(tensor.to_vector<bool>() == std::vector<bool>{0, 1, 1, 1, 0, 1});
  };
  round_trip(float{});
  round_trip(double{});
  round_trip(int64_t{});
  round_trip(int32_t{});
  round_trip(uint8_t{});
  round_trip(bool{});
  CHECK(from_vector<float>({}, {0, 4}).to_vector<float>().empty());
}

TEST_CASE("item converts, and needs exactly one element") {
  CHECK(from_vector<double>({2.75}, {1, 1}).item<float>() == 2.75f);
  CHECK(from_vector<double>({2.75}, {}).item<int64_t>() == 2);
  CHECK(from_vector<uint8_t>({200}, {}).item<int32_t>() == 200);
  CHECK(from_vector<bool>({true}, {1}).item<double>() == 1);
  CHECK(from_vector<float>({0.25}, {}).item<bool>());
  const Tensor row = from_vector<int64_t>({1, 2, 3}, {3});
  CHECK(view_of(row, row.layout().selected(0, 2)).item<int64_t>() == 3);
  CHECK_THROWS_WITH_AS(row.item<float>(),
                       "[item] the tensor must have exactly one element, got shape [3]",
                       ShapeError);
  CHECK_THROWS_AS(empty({0}).item<float>(), ShapeError);
}

TEST_CASE("elements are only seen as what they are") {
  const Tensor tensor = ones({2});
  CHECK(tensor.data<float>()[1] == 1);
  CHECK_THROWS_WITH_AS(tensor.data<double>(),
                       "[data] the tensor holds float32, its elements were asked for as float64",
                       DtypeError);
  CHECK_THROWS_AS(tensor.mutable_data<int32_t>(), DtypeError);
  CHECK(empty({0, 3}).data<float>() == nullptr);
}

TEST_CASE("versions count writes through any view") {
  const Tensor tensor = empty({4});
  const int64_t before = tensor.version();
  tensor.data<float>();
  CHECK(tensor.version() == before);
  const Tensor view = view_of(tensor, tensor.layout().sliced(0, 1, 3));
  view.mutable_data<float>();
  CHECK(tensor.version() > before);
  const int64_t between = tensor.version();
  fill_elements(view, 1);
  CHECK(tensor.version() > between);
  const int64_t later = tensor.version();
  copy_elements(ones({2}), view);
  CHECK(tensor.version() > later);
}

TEST_CASE("released storage is reported, and usable again after refill") {
  const Tensor tensor = ones({2});
  tensor.storage().release();
  CHECK(tensor.shape() == Shape{2});
  CHECK_THROWS_WITH_AS(tensor.data<float>(),
                       "[data] the storage of this tensor [2] was released: refill() it first",
                       ValueError);
  CHECK_THROWS_AS(fill_elements(tensor, 1), ValueError);
  CHECK_THROWS_AS(to_string(tensor), ValueError);
  tensor.storage().refill();
  fill_elements(tensor, 3);
  CHECK(tensor.to_vector<float>() == std::vector<float>{3, 3});
}

TEST_CASE("views see the elements of their layout, and only such as exist") {
  const Tensor base = from_vector<int32_t>({0, 1, 2, 3, 4, 5}, {2, 3});
  const Tensor columns = view_of(base, base.layout().transposed(0, 1));
  CHECK(columns.to_vector<int32_t>() == std::vector<int32_t>{0, 3, 1, 4, 2, 5});
  const Tensor reversed = view_of(base, {.shape = {6}, .strides = {-1}, .offset = 5});
  CHECK(reversed.to_vector<int32_t>() == std::vector<int32_t>{5, 4, 3, 2, 1, 0});
  const Tensor repeated = view_of(base, {.shape = {100}, .strides = {0}, .offset = 5});
  CHECK(repeated.to_vector<int32_t>() == std::vector<int32_t>(100, 5));
  CHECK(view_of(base, {.shape = {0}, .strides = {1}, .offset = 6}).numel() == 0);

  const Layout wrong[] = {{.shape = {7}, .strides = {1}},
                          {.shape = {6}, .strides = {1}, .offset = 1},
                          {.shape = {2}, .strides = {-1}},
                          {.shape = {2}, .strides = {1}, .offset = -1},
                          {.shape = {2, 2}, .strides = {4, 2}},
                          {.shape = {2}, .strides = {1, 1}},
                          {.shape = {-1}, .strides = {1}},
                          {.shape = {3}, .strides = {std::numeric_limits<int64_t>::max()}},
                          {.shape = {}, .strides = {}, .offset = 6}};
  for (const Layout& layout : wrong) {
    CAPTURE(to_string(layout.shape));
    CHECK_THROWS_AS(view_of(base, layout), ShapeError);
  }
  CHECK_THROWS_WITH(
      view_of(base, wrong[0]),
      "[view] shape [7] with strides [1] and offset 0 does not lie within 6 elements");
}

TEST_CASE("tensors over one storage") {
  const Ref<Storage> bucket = make_ref<Storage>(24, Device::cpu());
  const Tensor all = tensor_over(bucket, Layout::dense({6}), Dtype::float32);
  const Tensor part =
      tensor_over(bucket, {.shape = {2}, .strides = {1}, .offset = 4}, Dtype::float32);
  fill_elements(all, 1);
  fill_elements(part, 2);
  CHECK(all.to_vector<float>() == std::vector<float>{1, 1, 1, 1, 2, 2});
  CHECK(tensor_over(bucket, Layout::dense({3}), Dtype::float64).numel() == 3);
  CHECK_THROWS_AS(tensor_over(bucket, Layout::dense({4}), Dtype::float64), ShapeError);
}

TEST_CASE("copies convert dtypes and follow any strides") {
  Generator generator(1);
  for (Dtype from : kDtypes) {
    for (Dtype to : kDtypes) {
      const Tensor source = empty({3, 4, 5}, {.dtype = from});
      for (int64_t i = 0; i < 60; ++i) {
        fill_elements(view_of(source, {.shape = {}, .strides = {}, .offset = i}),
                      static_cast<double>(generator.below(2)));
      }
      const Layout turned = Layout::dense({5, 4, 3}).permuted({2, 1, 0});
      const Tensor target = view_of(empty({60}, {.dtype = to}), turned);
      copy_elements(source, target);
      CHECK(target.to_vector<int64_t>() == source.to_vector<int64_t>());
    }
  }
}

TEST_CASE("a copy may overlap its source") {
  const Tensor row = arange(6);
  const auto part = [&](int64_t begin, int64_t end) {
    return view_of(row, row.layout().sliced(0, begin, end));
  };
  copy_elements(part(0, 4), part(1, 5));
  CHECK(row.to_vector<int64_t>() == Ints{0, 0, 1, 2, 3, 5});
  const Tensor square = from_vector<int64_t>({1, 2, 3, 4}, {2, 2});
  copy_elements(view_of(square, square.layout().transposed(0, 1)), square);
  CHECK(square.to_vector<int64_t>() == Ints{1, 3, 2, 4});
}

TEST_CASE("host devices copy to each other; dense_copy keeps the device") {
  const Tensor there = empty({2}, {.device = Device::cpu(1)});
  copy_elements(from_vector<float>({1, 2}, {2}), there);
  CHECK(there.to_vector<float>() == std::vector<float>{1, 2});
  const Tensor copy = dense_copy(view_of(there, there.layout().expanded({3, 2})));
  CHECK(copy.device() == Device::cpu(1));
  CHECK(copy.is_contiguous());
  CHECK(copy.to_vector<float>() == std::vector<float>{1, 2, 1, 2, 1, 2});
}

TEST_CASE("copies that cannot be") {
  CHECK_THROWS_WITH_AS(copy_elements(ones({2}), ones({3})),
                       "[copy] shapes must be equal, got [2] and [3]", ShapeError);
  const Tensor repeated = view_of(ones({1}), Layout::dense({1}).expanded({3}));
  CHECK_THROWS_WITH_AS(
      copy_elements(ones({3}), repeated),
      "[copy] the target repeats its elements along axis 0 of [3]: clone() it first", ShapeError);
  const Tensor meta = empty({2}, {.device = Device::meta()});
  CHECK_THROWS_WITH_AS(copy_elements(meta, ones({2})), "[copy] cannot copy from meta to cpu:0",
                       DeviceError);
}

TEST_CASE("scaling multiplies in place, in 16 bits by the factor itself, and rounds once") {
  std::vector<float> whole(101), tenths(101);
  for (int i = 0; i <= 100; ++i) {
    whole[i] = static_cast<float>(i);
    tenths[i] = static_cast<float>(i) * 0.1f;
  }
  for (const Dtype dtype : {Dtype::float32, Dtype::float16, Dtype::bfloat16}) {
    CAPTURE(to_string(dtype));
    const Tensor rows = zeros({101, 2}, {.dtype = dtype}),
                 expected = zeros({101}, {.dtype = dtype});
    const Tensor column = view_of(rows, rows.layout().selected(1, 1));
    copy_elements(from_vector(whole, {101}), column);
    copy_elements(from_vector(tenths, {101}), expected);
    scale_elements(column, 0.1);
    CHECK(column.to_vector<float>() == expected.to_vector<float>());
    CHECK(rows.to_vector<float>()[200] == 0);
  }
  scale_elements(zeros({0, 3}), 2);
  CHECK_THROWS_AS(scale_elements(zeros({2}, {.dtype = Dtype::int64}), 2), DtypeError);
  const Tensor repeated = view_of(ones({1}), ones({1}).layout().expanded({3}));
  CHECK_THROWS_WITH_AS(scale_elements(repeated, 2),
                       "[scale] the target repeats its elements along axis 0 of [3]: clone() it "
                       "first",
                       ShapeError);
}

TEST_CASE("meta tensors have shapes and nothing else") {
  const Tensor meta = zeros({int64_t{1} << 30, 1000}, {.device = Device::meta()});
  CHECK(meta.bytes() == 4000 * (int64_t{1} << 30));
  CHECK(arange(5, {.device = Device::meta()}).shape() == Shape{5});
  CHECK(dense_copy(meta).shape() == meta.shape());
  copy_elements(ones({2}), empty({2}, {.device = Device::meta()}));  // does nothing
  CHECK_THROWS_WITH_AS(
      meta.data<float>(),
      "[data] a tensor on meta has a shape but no elements, got [1073741824, 1000]", DeviceError);
  CHECK_THROWS_AS(scalar(1, {.device = Device::meta()}).item<float>(), DeviceError);
  CHECK_THROWS_AS(zeros({2}, {.device = Device::meta()}).to_vector<float>(), DeviceError);
  CHECK(to_string(meta) == "float32 [1073741824, 1000] meta");
}

TEST_CASE("tensors as text") {
  CHECK(to_string(scalar(1.5)) == "float32 [] cpu:0 1.5");
  CHECK(to_string(from_vector<bool>({true, false}, {2})) == "bool [2] cpu:0 [true, false]");
  CHECK(to_string(from_vector<uint8_t>({65}, {1})) == "uint8 [1] cpu:0 [65]");
  CHECK(to_string(arange(7)) == "int64 [7] cpu:0 [0, 1, 2, 3, 4, 5, 6]");
  CHECK(to_string(arange(100)) == "int64 [100] cpu:0 [0, 1, 2, ..., 97, 98, 99]");
  const Tensor base = from_vector<int32_t>({1, 2, 3, 4}, {2, 2});
  CHECK(to_string(view_of(base, base.layout().transposed(0, 1))) ==
        "int32 [2, 2] cpu:0\n[[1, 3],\n [2, 4]]");
  CHECK(to_string(empty({0, 3})) == "float32 [0, 3] cpu:0");
}

TEST_CASE("the last handle frees the bytes, on whatever thread it goes") {
  const Device device = Device::cpu(30);
  Tensor tensor = empty({100}, {.device = device});
  Tensor view = view_of(tensor, tensor.layout().sliced(0, 0, 10));
  tensor = Tensor();
  CHECK(memory_stats(device).current > 0);
  std::thread([last = std::move(view)]() mutable { last = Tensor(); }).join();
  CHECK(memory_stats(device).current == 0);
}

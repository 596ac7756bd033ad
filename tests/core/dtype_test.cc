// Dtypes: names, sizes, promotion, and the way to C++ types.
#include "core/dtype.h"

#include <doctest/doctest.h>

#include "core/error.h"

using namespace capstan;

TEST_CASE("every dtype leads to its C++ type and back") {
  for (Dtype dtype : kDtypes) {
    CHECK(visit_dtype(dtype, []<class T>() { return dtype_of<T>(); }) == dtype);
  }
  CHECK(item_size(Dtype::float32) == 4);
  CHECK(item_size(Dtype::float64) == 8);
  CHECK(item_size(Dtype::float16) == 2);
  CHECK(item_size(Dtype::bfloat16) == 2);
  CHECK(item_size(Dtype::int64) == 8);
  CHECK(item_size(Dtype::int32) == 4);
  CHECK(item_size(Dtype::uint8) == 1);
  CHECK(item_size(Dtype::boolean) == 1);
}

TEST_CASE("names") {
  CHECK(to_string(Dtype::float32) == "float32");
  CHECK(to_string(Dtype::float64) == "float64");
  CHECK(to_string(Dtype::float16) == "float16");
  CHECK(to_string(Dtype::bfloat16) == "bfloat16");
  CHECK(to_string(Dtype::int64) == "int64");
  CHECK(to_string(Dtype::int32) == "int32");
  CHECK(to_string(Dtype::uint8) == "uint8");
  CHECK(to_string(Dtype::boolean) == "bool");
}

TEST_CASE("promotion is PyTorch's") {
  // torch.promote_types, rows and columns in the order of the enumeration.
  const char* expected[] = {"float32 float64 float32 float32 float32 float32 float32 float32",
                            "float64 float64 float64 float64 float64 float64 float64 float64",
                            "float32 float64 float16 float32 float16 float16 float16 float16",
                            "float32 float64 float32 bfloat16 bfloat16 bfloat16 bfloat16 bfloat16",
                            "float32 float64 float16 bfloat16 int64 int64 int64 int64",
                            "float32 float64 float16 bfloat16 int64 int32 int32 int32",
                            "float32 float64 float16 bfloat16 int64 int32 uint8 uint8",
                            "float32 float64 float16 bfloat16 int64 int32 uint8 bool"};
  for (size_t i = 0; i < std::size(kDtypes); ++i) {
    std::string row;
    for (const Dtype b : kDtypes)
      row += (row.empty() ? "" : " ") + to_string(promote(kDtypes[i], b));
    CHECK(row == expected[i]);
  }
}

TEST_CASE("promotion: floating beats integer beats bool, then the wider") {
  CHECK(promote(Dtype::float32, Dtype::float64) == Dtype::float64);
  CHECK(promote(Dtype::int64, Dtype::float32) == Dtype::float32);
  CHECK(promote(Dtype::uint8, Dtype::int32) == Dtype::int32);
  CHECK(promote(Dtype::int32, Dtype::int64) == Dtype::int64);
  CHECK(promote(Dtype::boolean, Dtype::uint8) == Dtype::uint8);
  for (Dtype a : kDtypes) {
    CHECK(promote(a, a) == a);
    CHECK(promote(a, Dtype::boolean) == a);
    for (Dtype b : kDtypes) {
      CHECK(promote(a, b) == promote(b, a));
      CHECK(is_floating(promote(a, b)) == (is_floating(a) || is_floating(b)));
    }
  }
}

TEST_CASE("16 bits are computed in 32") {
  for (const Dtype dtype : kDtypes) {
    CHECK(is_half(dtype) == (is_floating(dtype) && item_size(dtype) == 2));
    CHECK(compute_dtype(dtype) == (is_half(dtype) ? Dtype::float32 : dtype));
    visit_dtype(dtype,
                [&]<class T>() { CHECK(compute_dtype(dtype) == dtype_of<compute_type<T>>()); });
  }
}

TEST_CASE("visit_floating refuses the others by name") {
  const auto size = []<class T>() { return sizeof(T); };
  CHECK(visit_floating(Dtype::float32, "exp", size) == 4);
  CHECK(visit_floating(Dtype::float64, "exp", size) == 8);
  for (Dtype dtype : kDtypes) {
    const bool wide = compute_dtype(dtype) == dtype && is_floating(dtype);
    if (!wide) CHECK_THROWS_AS(visit_floating(dtype, "exp", size), DtypeError);
  }
  CHECK_THROWS_WITH(visit_floating(Dtype::int32, "exp", size),
                    "[exp] takes float32 or float64, got int32");
}

// Tests every differentiable operation in one way: a row of the table below names it, its variants
// and its error paths, and each row is checked for
//   values      results in float64 against PyTorch (tests/golden)
//   float32     results and gradients in float32 against the same
//   16 bits     results and gradients in float16 and bfloat16 against float32
//   gradients   of every input, for a random upstream gradient, against PyTorch
//   gradcheck   the same against finite differences
//   second      gradients of these gradients, by inputs and upstream, against finite differences
//   size one    cases above whose inputs have axes of size 1, or none: scalars, broadcasting
//   empty       cases above without elements
//   strided     the same results from inputs and upstream gradients that are not contiguous
//   NaN, inf    cases above with NaN and infinities in the inputs
//   meta        shape and dtype on the device without elements, and that its kernels count costs
//   errors      type and text of each error path
// An operation of the headers in autograd/ without a row, or a row without a check, is a failure.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>

#include "tests/autograd/attention_operations.h"
#include "tests/autograd/convolution_operations.h"
#include "tests/autograd/elementwise_operations.h"
#include "tests/autograd/indexing_operations.h"
#include "tests/autograd/layer_operations.h"
#include "tests/autograd/layout_operations.h"
#include "tests/autograd/normalization_operations.h"
#include "tests/autograd/operation_checks.h"
#include "tests/autograd/pair_loss_operations.h"
#include "tests/autograd/product_operations.h"
#include "tests/autograd/reduce_operations.h"

namespace capstan::testing {
namespace {

struct Family {
  const char* file;  // in tests/golden
  std::vector<Operation> operations;
};

std::vector<Family> families() {
  return {{"elementwise", elementwise_operations()},
          {"functions", function_operations()},
          {"activations", activation_operations()},
          {"reduce", reduce_operations()},
          {"statistics", statistic_operations()},
          {"views", view_operations()},
          {"rearrange", rearrange_operations()},
          {"indexing", indexing_operations()},
          {"sorting", sorting_operations()},
          {"products", product_operations()},
          {"einsum", einsum_operations()},
          {"linalg", linalg_operations()},
          {"losses", loss_operations()},
          {"pair_losses", pair_loss_operations()},
          {"normalization", normalization_operations()},
          {"attention", attention_operations()},
          {"convolutions", convolution_operations()},
          {"pooling", pooling_operations()},
          {"images", image_operations()},
          {"dropout", dropout_operations()}};
}

/// The names of the functions that the headers of operations declare: lines "Tensor name(", or
/// another type made of tensors instead.
std::set<std::string> declared_operations() {
  const std::set<std::string> tape = {"autocast.h",   "node.h",      "hooks.h",    "record.h",
                                      "saved.h",      "engine.h",    "custom.h",   "anomaly.h",
                                      "checkpoint.h", "gradcheck.h", "jacobian.h", "operands.h",
                                      "windows.h",    "parts.h"};
  const std::regex declaration("^(?:std::vector<Tensor>|[A-Z]\\w+) (\\w+)\\(.*");
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator("autograd")) {
    if (entry.path().extension() != ".h" || tape.contains(entry.path().filename())) continue;
    std::ifstream header(entry.path());
    std::smatch match;
    for (std::string line; std::getline(header, line);) {
      if (std::regex_match(line, match, declaration)) names.insert(match[1]);
    }
  }
  names.erase("scalar_beside");  // makes a constant
  return names;
}

TEST_CASE("every operation gives PyTorch's values and gradients, on all kinds of inputs") {
  // Columns that cannot apply.
  const std::set<std::string> no_errors = {
      "negate", "absolute", "square", "relu",  "cast",  "contiguous", "clone",    "sign",
      "floor",  "ceil",     "round",  "trunc", "isnan", "isinf",      "isfinite", "logical_not"};
  const std::set<std::string> no_gradients = {
      "equal",       "not_equal",  "less",        "less_equal",  "greater", "greater_equal",
      "logical_and", "logical_or", "logical_xor", "logical_not", "isnan",   "isinf",
      "isfinite",    "any",        "all",         "argmax",      "argmin",  "argsort",
      "nonzero",     "unique",     "qr",          "svd",         "eigh"};
  // Eigen's decompositions of NaN are in linalg_test.cc; PyTorch throws.
  const std::set<std::string> no_special = {"cholesky", "solve", "inverse", "qr", "svd", "eigh"};
  std::printf("%-14s", "operation");
  for (const char* column : kColumnNames) std::printf("%10s", column);
  std::printf("\n");

  std::set<std::string> checked;
  for (const Family& family : families()) {
    const GoldenOperations golden = load_golden_operations(family.file);
    std::set<std::string> unused;
    for (const auto& [name, cases] : golden.cases) unused.insert(name);
    for (const Operation& operation : family.operations) {
      CAPTURE(operation.name);
      CHECK(checked.insert(operation.name).second);
      for (const auto& [variant, f] : operation.variants) {
        unused.erase(operation.name + (variant.empty() ? "" : "." + variant));
      }
      const Checks checks = check_operation(operation, golden);
      for (const std::string& fault : checks.faults) FAIL_CHECK(fault);
      for (int column = 0; column < kColumns; ++column) {
        if (column == errors && no_errors.contains(operation.name)) continue;
        if ((column == gradients || column == finite_differences || column == second) &&
            no_gradients.contains(operation.name)) {
          continue;
        }
        if (column == special && no_special.contains(operation.name)) continue;
        if (column == meta && !operation.on_meta) continue;
        CAPTURE(kColumnNames[column]);
        CHECK(checks.counts[column] > 0);
      }
    }
    for (const std::string& name : unused) FAIL_CHECK(name << " has reference values, and no row");
  }

  const std::set<std::string> declared = declared_operations();
  CHECK(declared.size() > 120);
  for (const std::string& name : declared) {
    if (!checked.contains(name)) FAIL_CHECK(name << " is declared in autograd/, and has no row");
  }
  for (const std::string& name : checked) {
    if (!declared.contains(name)) FAIL_CHECK(name << " has a row, and is not declared");
  }
}

}  // namespace
}  // namespace capstan::testing

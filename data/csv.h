// Defines read_csv() and csv_dataset(): tables of numbers in text (RFC 4180).
//
// A line is a record, its fields are apart by commas; a field may stand between double quotes, and
// may then hold commas, ends of lines, and quotes written twice.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "data/dataset.h"

namespace capstan::data {

struct CsvOptions {
  char delimiter = ',';
  bool header = true;                  // the first record names the columns
  std::optional<double> missing = {};  // what an empty field means; without it, it is an error
};

struct CsvTable {
  std::vector<std::string> columns;  // their names; without a header "0", "1", ...
  Tensor values;                     // float64 [rows, columns]
};

/// Reads a file of numbers. Throws IoError that names the line and column of a field that is not a
/// number, of a record with more or fewer fields than the first, or of a quote out of place.
CsvTable read_csv(const std::string& path, const CsvOptions& options = {});

/// Reads a file's fields as they are, record by record; for columns that are not numbers.
std::vector<std::vector<std::string>> read_csv_text(const std::string& path, char delimiter = ',');

/// One column of a table as int64 labels [N], the others as float32 inputs [N, columns - 1]. Throws
/// IoError as read_csv() does, if there is no column of that name, or a label is no whole number.
TensorDataset csv_dataset(const std::string& path, const std::string& label_column,
                          const CsvOptions& options = {});

}  // namespace capstan::data

#include "data/csv.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/raise.h"
#include "data/bytes.h"

namespace capstan::data {
namespace {

/// Walks the records of a text.
class Records {
 public:
  Records(const std::string& path, std::string_view text, char delimiter)
      : path_(path), text_(text), delimiter_(delimiter) {
    if (delimiter == '"' || delimiter == '\n' || delimiter == '\r') {
      raise<ValueError>("[read_csv] the delimiter must not be a quote or the end of a line");
    }
    if (text_.starts_with("\xef\xbb\xbf")) at_ = 3;  // the byte order mark of some programs
  }

  /// The line on which the last record began, from 1.
  int64_t line() const { return line_; }

  /// Puts the next record into `fields`; false after the last. An end of line at the end of the
  /// file begins no record.
  bool next(std::vector<std::string>& fields) {
    fields.clear();
    if (at_ >= text_.size()) return false;
    line_ = next_line_;
    do {
      fields.push_back(at_ < text_.size() && text_[at_] == '"' ? quoted() : bare());
    } while (accept(delimiter_));
    accept('\r');
    if (at_ < text_.size() && !accept('\n')) {
      fail(fields.size(), "expected the end of the field after a quote or a carriage return");
    }
    ++next_line_;
    return true;
  }

 private:
  bool accept(char wanted) {
    if (at_ == text_.size() || text_[at_] != wanted) return false;
    ++at_;
    return true;
  }

  std::string bare() {
    const size_t begin = at_;
    while (at_ < text_.size() && text_[at_] != delimiter_ && text_[at_] != '\n' &&
           text_[at_] != '\r') {
      if (text_[at_++] == '"') fail(0, "a quote inside a field that does not begin with one");
    }
    return std::string(text_.substr(begin, at_ - begin));
  }

  std::string quoted() {
    std::string out;
    for (++at_; at_ < text_.size(); ++at_) {
      if (text_[at_] == '"' && (++at_ == text_.size() || text_[at_] != '"')) return out;
      next_line_ += text_[at_] == '\n';
      out += text_[at_];
    }
    fail(0, "a quote is opened and not closed");
  }

  [[noreturn]] void fail(size_t field, const char* what) const {
    raise<IoError>("[read_csv] {}: line {}{}: {}", path_, next_line_,
                   field > 0 ? fmt::format(", field {}", field) : "", what);
  }

  const std::string& path_;
  std::string_view text_;
  const char delimiter_;
  size_t at_ = 0;
  int64_t line_ = 0, next_line_ = 1;
};

std::string_view trimmed(std::string_view text) {
  const size_t begin = std::min(text.find_first_not_of(" \t"), text.size());
  return text.substr(begin, text.find_last_not_of(" \t") + 1 - begin);
}

/// The number that a field says, none if it says something else.
std::optional<double> number_in(std::string_view field, const CsvOptions& options) {
  field = trimmed(field);
  if (field.empty()) return options.missing;
  double value;
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
  if (error != std::errc{} || end != field.data() + field.size()) return std::nullopt;
  return value;
}

std::vector<std::string> numbered(size_t count) {
  std::vector<std::string> names;
  for (size_t i = 0; i < count; ++i) names.push_back(std::to_string(i));
  return names;
}

}  // namespace

CsvTable read_csv(const std::string& path, const CsvOptions& options) {
  const MappedFile file(path);
  Records records(path, file.text(), options.delimiter);
  std::vector<std::string> columns, fields;
  std::vector<double> values;
  if (options.header && !records.next(columns)) {
    raise<IoError>("[read_csv] {}: expected a header with the names of the columns, found nothing",
                   path);
  }
  int64_t rows = 0;
  for (; records.next(fields); ++rows) {
    if (columns.empty()) columns = numbered(fields.size());
    if (fields.size() != columns.size()) {
      raise<IoError>("[read_csv] {}: line {}: expected {} fields, found {}", path, records.line(),
                     columns.size(), fields.size());
    }
    for (size_t i = 0; i < fields.size(); ++i) {
      const auto value = number_in(fields[i], options);
      if (!value) {
        raise<IoError>("[read_csv] {}: line {}, column \"{}\": expected a number, found \"{}\"{}",
                       path, records.line(), columns[i], fields[i].substr(0, 40),
                       fields[i].empty() ? "; set `missing` to give empty fields a value" : "");
      }
      values.push_back(*value);
    }
  }
  const Shape shape{rows, std::ssize(columns)};
  return {std::move(columns), from_vector(values, shape)};
}

std::vector<std::vector<std::string>> read_csv_text(const std::string& path, char delimiter) {
  const MappedFile file(path);
  Records records(path, file.text(), delimiter);
  std::vector<std::vector<std::string>> all;
  for (std::vector<std::string> fields; records.next(fields);) all.push_back(fields);
  return all;
}

TensorDataset csv_dataset(const std::string& path, const std::string& label_column,
                          const CsvOptions& options) {
  const auto [columns, values] = read_csv(path, options);
  const auto label = std::find(columns.begin(), columns.end(), label_column) - columns.begin();
  if (label == std::ssize(columns) ||
      std::count(columns.begin(), columns.end(), label_column) != 1) {
    raise<IoError>("[csv_dataset] {}: expected one column named \"{}\", the columns are {}", path,
                   label_column, fmt::join(columns, ", "));
  }
  const int64_t rows = values.size(0), width = values.size(1);
  const Tensor inputs = empty({rows, width - 1}), labels = empty({rows}, {.dtype = Dtype::int64});
  const auto* value = values.data<double>();
  auto* input = inputs.mutable_data<float>();
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < width; ++column, ++value) {
      if (column != label) {
        *input++ = static_cast<float>(*value);
        continue;
      }
      if (std::abs(*value) > 0x1p53 || std::trunc(*value) != *value) {  // and so for NaN
        raise<IoError>("[csv_dataset] {}: a label must be a whole number, row {} has {}", path, row,
                       *value);
      }
      labels.mutable_data<int64_t>()[row] = static_cast<int64_t>(*value);
    }
  }
  return TensorDataset(inputs, labels);
}

}  // namespace capstan::data

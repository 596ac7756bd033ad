#include "models/metrics.h"

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "core/atomic_file.h"
#include "core/raise.h"

namespace capstan::models {
namespace {

using nlohmann::ordered_json;

std::string to_line(const StepRecord& record) {
  ordered_json line = {{"step", record.step},
                       {"epoch", record.epoch},
                       {"loss", record.loss},
                       {"rate", record.rate},
                       {"samples_per_second", record.samples_per_second}};
  if (record.gradient_norm) line["gradient_norm"] = *record.gradient_norm;
  return line.dump();
}

std::string to_line(const EvaluationRecord& record) {
  return ordered_json{{"step", record.step},
                      {"epoch", record.epoch},
                      {"test_accuracy", record.test_accuracy},
                      {"test_loss", record.test_loss}}
      .dump();
}

}  // namespace

Metrics::Metrics(const std::string& path, int64_t step) : path_(path) {
  if (!std::ofstream(path_, std::ios::app)) {
    raise<IoError>("[metrics] cannot write to {}: {}", path_, std::strerror(errno));
  }
  const std::string kept = step > 0 ? read(step) : "";
  // The file is replaced by what is kept of it, so it is never without its entries.
  write_atomically(path_, [&](std::ostream& out) { out << kept; });
  file_.open(path_, std::ios::app);
}

std::string Metrics::read(int64_t last_step) {
  std::ifstream file(path_);
  std::string kept;
  for (std::string text; std::getline(file, text);) {
    try {
      const auto line = ordered_json::parse(text);
      const int64_t step = line.at("step"), epoch = line.at("epoch");
      if (step > last_step) continue;
      if (line.contains("test_accuracy")) {
        evaluations_.push_back({step, epoch, line["test_accuracy"], line.at("test_loss")});
      } else {
        StepRecord record{step, epoch, line.at("loss"), line.at("rate"),
                          line.at("samples_per_second")};
        if (line.contains("gradient_norm")) record.gradient_norm = line["gradient_norm"];
        steps_.push_back(record);
      }
      kept += text + '\n';
    } catch (const ordered_json::exception&) {
      // A line that a crash cut short, or that is not ours.
    }
  }
  return kept;
}

void Metrics::add(const StepRecord& record) {
  steps_.push_back(record);
  write_line(to_line(record));
}

void Metrics::add(const EvaluationRecord& record) {
  if (!evaluations_.empty() && evaluations_.back().step == record.step) return;
  evaluations_.push_back(record);
  write_line(to_line(record));
}

void Metrics::write_line(const std::string& line) {
  if (path_.empty()) return;
  file_ << line << '\n' << std::flush;
  if (!file_) raise<IoError>("[metrics] cannot write to {}", path_);
}

}  // namespace capstan::models

// Defines Metrics, the record of a training run: one entry a step and one an evaluation, kept in
// memory and, if asked, in a file of JSON lines that other programs read while the run goes on.
//
//   {"step":938,"epoch":1,"loss":0.4312,"rate":0.0199,"samples_per_second":5120.3}
//   {"step":938,"epoch":1,"test_accuracy":0.8731,"test_loss":0.3523}
//
// Steps count from 1: step n is the state after n optimizer steps. So do epochs.
#pragma once

#include <cstdint>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

namespace capstan::models {

struct StepRecord {
  int64_t step = 0;
  int64_t epoch = 0;
  double loss = 0;  // mean over the step's samples of all ranks
  double rate = 0;  // of this step
  double samples_per_second = 0;
  std::optional<double> gradient_norm = {};  // before clipping, if gradients are clipped
};

struct EvaluationRecord {
  int64_t step = 0;
  int64_t epoch = 0;
  double test_accuracy = 0;  // 0 to 1
  double test_loss = 0;
};

class Metrics {
 public:
  /// A record in memory only.
  Metrics() = default;
  /// A record in `path` too. A run that continues after `step` steps keeps the file's entries up to
  /// there; later ones (of a run that died after its last checkpoint) and damaged lines are
  /// dropped. Throws IoError if the file cannot be written.
  Metrics(const std::string& path, int64_t step);

  /// Throw IoError if the disk refuses. A step has one evaluation: another one of the last step
  /// evaluated, by a run that was resumed there, is left out.
  void add(const StepRecord& record);
  void add(const EvaluationRecord& record);

  const std::vector<StepRecord>& steps() const { return steps_; }
  const std::vector<EvaluationRecord>& evaluations() const { return evaluations_; }

 private:
  /// Takes over the file's entries up to `last_step` and returns their lines.
  std::string read(int64_t last_step);
  void write_line(const std::string& line);

  std::string path_;
  std::ofstream file_;
  std::vector<StepRecord> steps_;
  std::vector<EvaluationRecord> evaluations_;
};

}  // namespace capstan::models

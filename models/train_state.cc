#include "models/train_state.h"

#include <charconv>

#include "core/raise.h"

namespace capstan::models {
namespace {

template <class T>
void require_same(const char* what, const T& saved, const T& ours) {
  if (saved == ours) return;
  raise<ValueError>("[resume] the checkpoint is of another run: its {} is {}, this run's is {}",
                    what, saved, ours);
}

/// What a checkpoint says of its run, entry by entry.
class Entries {
 public:
  Entries(const Metadata& entries, const std::string& folder)
      : entries_(entries), folder_(folder) {}

  const std::string& text(const std::string& name) const {
    const auto found = entries_.find(name);
    if (found != entries_.end()) return found->second;
    raise<IoError>("[resume] the checkpoint in {} is of another program: it has no {}", folder_,
                   name);
  }

  template <class T>
  T number(const std::string& name) const {
    return parse<T>(name, text(name));
  }

  std::vector<int> numbers(const std::string& name) const {
    std::vector<int> all;
    std::string_view rest = text(name);
    while (!rest.empty()) {
      const size_t end = std::min(rest.find(' '), rest.size());
      all.push_back(parse<int>(name, rest.substr(0, end)));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    return all;
  }

 private:
  /// A number from 0 on.
  template <class T>
  T parse(const std::string& name, std::string_view digits) const {
    T value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error == std::errc() && end == digits.data() + digits.size() && value >= 0) return value;
    raise<IoError>("[resume] the checkpoint in {} is damaged: its {} is '{}'", folder_, name,
                   text(name));
  }

  const Metadata& entries_;
  const std::string& folder_;
};

}  // namespace

Metadata TrainState::metadata() const {
  return {{"model", run.model},
          {"optimizer", run.optimizer},
          {"seed", std::to_string(run.seed)},
          {"training_samples", std::to_string(run.training_samples)},
          {"step", std::to_string(step)},
          {"samples", std::to_string(samples)},
          {"gradient_order", fmt::format("{}", fmt::join(gradient_order, " "))}};
}

distributed::Manifest TrainState::resume(const std::string& folder,
                                         distributed::Communicator& communicator) {
  const distributed::Manifest manifest = distributed::read_manifest(folder, communicator);
  const Entries saved(manifest.run, folder);
  communicator.together("resume", [&] {
    require_same("model", saved.text("model"), run.model);
    require_same("optimizer", saved.text("optimizer"), run.optimizer);
    require_same("seed", saved.number<uint64_t>("seed"), run.seed);
    require_same("number of training samples", saved.number<int64_t>("training_samples"),
                 run.training_samples);
    step = saved.number<int64_t>("step");
    samples = saved.number<int64_t>("samples");
    gradient_order = saved.numbers("gradient_order");
  });
  return manifest;
}

}  // namespace capstan::models

#include "core/recipe.h"

#include <map>
#include <set>

#include "core/raise.h"

namespace capstan {

namespace {

thread_local Recipe* current = nullptr;

/// The same elements, off the tape.
Tensor handle(const Tensor& tensor) { return view_of(tensor, tensor.layout()); }

}  // namespace

Recipe::Recording::Recording(Recipe& recipe) : before_(std::exchange(current, &recipe)) {}
Recipe::Recording::~Recording() { current = before_; }

Recipe* Recipe::recording() { return current; }

void Recipe::add(std::string what, const std::vector<Tensor>& reads, const Tensor& writes,
                 Kernel kernel) {
  Step step{std::move(what), {}, handle(writes), std::move(kernel)};
  for (const Tensor& read : reads) step.reads.push_back(handle(read));
  steps_.push_back(std::move(step));
}

Tensor Recipe::make(const Tensor& recorded, Device device) const {
  // From the last step back: which of them lead to the tensor.
  std::set<const Storage*> needed{&recorded.storage()};
  std::vector<const Step*> steps;
  for (auto step = steps_.rbegin(); step != steps_.rend(); ++step) {
    if (!needed.contains(&step->writes.storage())) continue;
    steps.push_back(&*step);
    for (const Tensor& read : step->reads) needed.insert(&read.storage());
  }
  if (steps.empty()) {
    raise<ValueError>("[recipe] this tensor, of {}, was not made while this recipe recorded",
                      recorded.shape());
  }
  std::map<const Storage*, Ref<Storage>> made;
  const auto real = [&](const Tensor& tensor) {
    Ref<Storage>& storage = made[&tensor.storage()];
    if (!storage) storage = make_ref<Storage>(tensor.storage().bytes(), device);
    return tensor_over(storage, tensor.layout(), tensor.dtype());
  };
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    std::vector<Tensor> reads;
    for (const Tensor& read : (*step)->reads) reads.push_back(real(read));
    (*step)->kernel(reads, real((*step)->writes));
  }
  const Tensor result = real(recorded);
  return result.is_contiguous() ? result : dense_copy(result);
}

std::string Recipe::text() const {
  std::map<const Storage*, size_t> numbers;  // of storages, in the order in which they come
  const auto describe = [&](const Tensor& tensor) {
    const size_t number = numbers.emplace(&tensor.storage(), numbers.size()).first->second;
    return fmt::format(" {}:{}{}{}+{}", number, tensor.dtype(), tensor.shape(), tensor.strides(),
                       tensor.layout().offset);
  };
  std::string text;
  for (const Step& step : steps_) {
    text += step.what;
    for (const Tensor& read : step.reads) text += describe(read);
    text += " ->" + describe(step.writes) + "\n";
  }
  return text;
}

}  // namespace capstan

#include "models/gpt_task.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/raise.h"
#include "core/random.h"
#include "models/generate.h"
#include "models/gpt_plan.h"
#include "models/strategy.h"

namespace capstan::models {
namespace {

/// The name of the model: all of its shape.
std::string describe(const GptShape& shape) {
  std::string name =
      fmt::format("gpt of {} layers, {} heads, width {}, context {}, vocabulary {}", shape.layers,
                  shape.heads, shape.width, shape.context, shape.vocabulary);
  if (shape.rotary) name += ", rotary";
  if (shape.rms_norm) name += ", RMSNorm";
  if (shape.swiglu) name += ", SwiGLU";
  if (shape.groups > 0) name += fmt::format(", {} groups", shape.groups);
  if (shape.experts > 0) {
    name += fmt::format(", {} experts, {} chosen", shape.experts, shape.chosen);
  }
  return name;
}

/// Samples evaluated at a time: as many as keep the logits at 16 million or less.
int64_t test_batch(const GptShape& shape) {
  return std::clamp<int64_t>((1 << 24) / (shape.context * shape.vocabulary), 1, 256);
}

}  // namespace

double bits_per_byte(const Evaluation& evaluation, double bytes_per_token) {
  return evaluation.loss / std::numbers::ln2 / bytes_per_token;
}

TrainResult train(const GptOptions& options, const TextSet& text,
                  distributed::Communicator& communicator, std::ostream& out) {
  check(options);
  GptShape shape = options.shape;
  shape.vocabulary = text.tokenizer.vocabulary_size();
  manual_seed(options.seed);
  Task task{
      .name = describe(shape),
      .model = Classifier::recorded(
          [&] { return Classifier(std::make_unique<Gpt>(shape, options.dropout)); }),
      .training_set = text.training,
      .test_set = text.validation,
      .test_batch = test_batch(shape),
      .accuracy = "validation accuracy",
      .unit = "tokens",
      .units_per_sample = shape.context,
      .tensor_plan =
          gpt_plan({.sequence = options.layout.sequence_parallel, .joined_logits = true}),
      .context = distributed::ContextOptions{.attention = "blocks.*.attention", .start = "drop"}};
  task.result = [bytes = text.bytes_per_token()](const Evaluation& test) {
    return fmt::format("validation loss {:.4f} nats, {:.4f} bits per byte", test.loss,
                       bits_per_byte(test, bytes));
  };
  task.details = [](const Evaluation& test) {
    return fmt::format("accuracy {:.2f} %", 100 * test.accuracy());
  };
  if (shape.experts > 0) {
    task.more_loss = [gpt = dynamic_cast<Gpt*>(&task.model.module())] { return gpt->balance(); };
  }
  if (options.sample > 0) {
    task.finally = [&](Strategy& strategy) {
      if (!strategy.is_first_copy()) return;
      const auto prompt = text.tokenizer.encode_ordinary(options.prompt);
      const auto next = [&](const Tensor& inputs) { return strategy.next_logits(inputs); };
      const auto tokens = generate(next, prompt,
                                   {.count = options.sample,
                                    .context = shape.context,
                                    .temperature = options.temperature,
                                    .seed = options.sample_seed});
      if (communicator.rank() == 0) {
        out << options.prompt << text.tokenizer.decode(tokens) << std::endl;
      }
    };
  }
  return train(options, task, communicator, out);
}

}  // namespace capstan::models

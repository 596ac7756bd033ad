#include "models/gpt_options.h"

#include <cmath>

#include "core/raise.h"
#include "models/option_checks.h"

namespace capstan::models {

void list(GptOptions& o, OptionReader& reader) {
  reader.group("Model")
      .add("--layers", o.shape.layers, "Blocks of attention and a feed-forward part")
      .add("--heads", o.shape.heads, "Heads of attention")
      .add("--width", o.shape.width, "Features of a token")
      .add("--context", o.shape.context, "Tokens seen at a time: the length of a sample")
      .add("--rotary", o.shape.rotary, "Rotary positions in place of learned ones")
      .add("--rms-norm", o.shape.rms_norm, "RMSNorm in place of LayerNorm")
      .add("--swiglu", o.shape.swiglu, "SwiGLU in place of GELU")
      .add("--groups", o.shape.groups, "Heads of keys and values, 0 for all heads")
      .add("--experts", o.shape.experts, "Feed-forward parts of each block, 0 for no mixture")
      .add("--chosen", o.shape.chosen, "Experts that take each token");
  reader.group("Data")
      .add("--text", o.text, "Text file, plain or gzip; its last tenth is for validation")
      .of_rank()  // a machine may keep its copies elsewhere
      .add("--tokens", o.tokens, "File of the tokenizer's tokens, 2 bytes each, in place of a text")
      .excludes("--text")
      .of_rank()
      .add("--tokenizer", o.tokenizer, "tokenizer.json with byte pairs; none: a byte is a token")
      .of_rank();
  list(static_cast<TrainOptions&>(o), reader);
  reader.group("Sample")
      .add("--sample", o.sample, "Tokens that the model writes at the end")
      .add("--prompt", o.prompt, "Text that it goes on with")
      .add("--temperature", o.temperature, "Below 1: more of the likely; 0: the likeliest only")
      .add("--sample-seed", o.sample_seed, "Of what is drawn");
}

void check(const GptOptions& o) {
  const GptShape& shape = o.shape;
  require_count("--layers", shape.layers, 10'000);
  require_count("--heads", shape.heads, 10'000);
  require_count("--width", shape.width, 1'000'000);
  require_count("--context", shape.context, 1'000'000);
  require(shape.groups >= 0, "--groups", "0 or more", shape.groups);
  const auto require_divides = [](const char* part, int64_t divisor, const char* whole,
                                  int64_t number) {
    if (number % divisor == 0) return;
    raise<ValueError>("[options] {} must divide {}, got {} and {}", part, whole, divisor, number);
  };
  require_divides("--heads", shape.heads, "--width", shape.width);
  if (shape.groups > 0) require_divides("--groups", shape.groups, "--heads", shape.heads);
  if (shape.rotary) {
    require(shape.width / shape.heads % 2 == 0, "--rotary's --width / --heads", "even",
            shape.width / shape.heads);
  }
  require(o.sample >= 0 && o.sample <= 1'000'000'000, "--sample", "in [0, 1000000000]", o.sample);
  require(o.temperature >= 0 && std::isfinite(o.temperature), "--temperature", "0 or more",
          o.temperature);
  if (o.sample > 0 && o.prompt.empty()) {
    raise<ValueError>("[options] --prompt must not be empty: a model needs a token to go on with");
  }
  require(shape.experts >= 0 && shape.experts <= 10'000, "--experts", "in [0, 10000]",
          shape.experts);
  require_count("--chosen", shape.chosen, 10'000);
  if (shape.experts > 0) {
    if (shape.chosen > shape.experts) {
      raise<ValueError>("[options] --chosen {} of --experts {}: there are not so many",
                        shape.chosen, shape.experts);
    }
    if (shape.swiglu || o.layout.tensor * o.layout.pipeline * o.layout.context > 1) {
      raise<ValueError>(
          "[options] --experts does not go with --swiglu, --tensor, --pipeline and "
          "--context-parallel");
    }
  } else if (o.layout.spread_experts) {
    raise<ValueError>("[options] --expert-parallel needs --experts");
  }
  check(static_cast<const TrainOptions&>(o));
  require_divides("the parts of a sequence", o.layout.sequence_parts(), "--context", shape.context);
}

}  // namespace capstan::models

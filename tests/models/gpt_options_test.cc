// Tests what train_gpt's command line may say, beside what train_options_test.cc tests for all.
#include "models/gpt_options.h"

#include <doctest/doctest.h>

#include <vector>

#include "core/error.h"

using namespace capstan;
using namespace capstan::models;

namespace {

CommandLine<GptOptions> parse(std::vector<const char*> words) {
  words.insert(words.begin(), "train_gpt");
  return parse_command_line<GptOptions>(static_cast<int>(words.size()), words.data());
}

void refuse(const std::vector<const char*>& words, const char* text) {
  CHECK_THROWS_WITH_AS(parse(words), doctest::Contains(text), ValueError);
}

}  // namespace

TEST_CASE("every option arrives") {
  const GptOptions o = parse({"--layers",  "3",
                              "--heads",   "6",
                              "--width",   "48",
                              "--context", "20",
                              "--rotary",  "--rms-norm",
                              "--swiglu",  "--groups",
                              "2",         "--text",
                              "t",         "--tokenizer",
                              "j",         "--sample",
                              "9",         "--prompt",
                              "In",        "--temperature",
                              "0.5",       "--sample-seed",
                              "4",         "--dropout",
                              "0.1",       "--rate",
                              "0.01",      "--seed",
                              "7",         "--global-batch",
                              "8",         "--steps",
                              "5"})
                           .options;
  CHECK(o.shape.layers == 3);
  CHECK(o.shape.heads == 6);
  CHECK(o.shape.width == 48);
  CHECK(o.shape.context == 20);
  CHECK(o.shape.rotary);
  CHECK(o.shape.rms_norm);
  CHECK(o.shape.swiglu);
  CHECK(o.shape.groups == 2);
  CHECK(o.text == "t");
  CHECK(o.tokenizer == "j");
  CHECK(o.sample == 9);
  CHECK(o.prompt == "In");
  CHECK(o.temperature == 0.5);
  CHECK(o.sample_seed == 4);
  CHECK(o.dropout == 0.1);
  CHECK(o.rate == 0.01);
  CHECK(o.seed == 7);
  CHECK(o.global_batch == 8);
  CHECK(o.steps == 5);
  CHECK(parse({"--tokens", "f"}).options.tokens == "f");
}

TEST_CASE("what is left open") {
  const GptOptions o = parse({}).options;
  CHECK(o.text == "/usr/lib/bible.data");
  CHECK(o.optimizer == "adamw");
  CHECK(o.peak_rate(2) == 0.001);
  CHECK(o.clip == 1);
  CHECK(o.sample == 0);
  CHECK(parse({"--clip", "3", "--optimizer", "sgd"}).options.clip == 3);
}

TEST_CASE("files may lie elsewhere on each machine, and all else is shared") {
  CHECK(parse({"--text", "t", "--tokenizer", "j", "--threads", "2"}).shared == "");
  CHECK(parse({"--tokens", "t"}).shared == "");
  CHECK(parse({"--sample", "3"}).shared != "");
  CHECK(parse({"--layers", "3"}).shared != "");
}

TEST_CASE("--help names every option") {
  const std::string help = parse({"--help"}).help;
  for (const char* option :
       {"--layers", "--heads", "--width", "--context", "--rotary", "--rms-norm", "--swiglu",
        "--groups", "--text", "--tokens", "--tokenizer", "--sample", "--prompt", "--temperature",
        "--sample-seed", "--global-batch", "--rate", "--checkpoint", "--compress"}) {
    CHECK_MESSAGE(help.find(option) != std::string::npos, option);
  }
}

TEST_CASE("impossible options are refused") {
  for (const char* option : {"--layers", "--heads", "--width", "--context"}) {
    refuse({option, "0"}, "must be in [1, ");
    refuse({option, "9999999999"}, "got 9999999999");
  }
  refuse({"--heads", "3"}, "[options] --heads must divide --width, got 3 and 128");
  refuse({"--groups", "3"}, "[options] --groups must divide --heads, got 3 and 4");
  refuse({"--groups", "-1"}, "--groups must be 0 or more, got -1");
  refuse({"--rotary", "--heads", "8", "--width", "24"},
         "--rotary's --width / --heads must be even, got 3");
  refuse({"--experts", "-1"}, "--experts must be in [0, 10000], got -1");
  refuse({"--chosen", "0"}, "--chosen must be in [1, ");
  refuse({"--experts", "4", "--chosen", "5"}, "--chosen 5 of --experts 4: there are not so many");
  refuse({"--experts", "4", "--swiglu"}, "--experts does not go with --swiglu");
  refuse({"--experts", "4", "--context-parallel", "2"}, "--experts does not go with");
  refuse({"--experts", "4", "--expert-parallel", "--zero", "1"},
         "--expert-parallel does not go with --zero 1");
  refuse({"--expert-parallel"}, "--expert-parallel needs --experts");
  refuse({"--sample", "-1"}, "--sample must be in [0, 1000000000], got -1");
  refuse({"--sample", "5", "--prompt", ""}, "--prompt must not be empty");
  for (const char* temperature : {"-1", "nan", "inf"}) {
    refuse({"--temperature", temperature}, "--temperature must be 0 or more");
  }
  refuse({"--text", "a", "--tokens", "b"}, "excludes");
  refuse({"--model", "lenet"}, "--model");
  refuse({"--batch", "0"}, "--batch must be in [1, ");
}

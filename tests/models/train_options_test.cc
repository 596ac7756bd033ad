// Tests what the command line may say, and that everything impossible is refused in one line.
#include <doctest/doctest.h>

#include <algorithm>
#include <iterator>
#include <sstream>
#include <vector>

#include "core/error.h"
#include "models/image_options.h"

using namespace capstan;
using namespace capstan::models;

namespace {

CommandLine<ImageOptions> parse(std::vector<const char*> words) {
  words.insert(words.begin(), "train_image");
  return parse_command_line<ImageOptions>(static_cast<int>(words.size()), words.data());
}

/// The same of words with spaces between them.
CommandLine<ImageOptions> parse_line(const std::string& line) {
  std::istringstream stream(line);
  const std::vector<std::string> words{std::istream_iterator<std::string>(stream), {}};
  std::vector<const char*> pointers;
  for (const std::string& word : words) pointers.push_back(word.c_str());
  return parse(pointers);
}

void refuse(const std::vector<const char*>& words, const std::string& text) {
  std::string message = "nothing was thrown";
  try {
    parse(words);
  } catch (const ValueError& error) {
    message = error.what();
  }
  CHECK_MESSAGE(message.find(text) != std::string::npos, message);
  CHECK_MESSAGE(std::count(message.begin(), message.end(), '\n') == 0, message);
}

}  // namespace

TEST_CASE("every option arrives") {
  const ImageOptions o =
      parse_line(
          "--model mlp --data d --dropout 0.25 --seed 7 --epochs 3 --steps 11 --batch 16 "
          "--accumulate 2 --rate 0.5 --warmup 9 --weight-decay 0.1 --momentum 0.8 --clip 2 "
          "--threads 3 --bucket-mb 1.5 --checkpoint c --save-every 4 --metrics m --plot p "
          "--progress bar --no-nesterov --scale-rate --resume --quiet --dtype float64 --autocast "
          "--reproducible 0 --all-reduce tree")
          .options;
  CHECK(o.model == "mlp");
  CHECK(o.data == "d");
  CHECK(o.dropout == 0.25);
  CHECK(o.dtype == "float64");
  CHECK(o.autocast);
  CHECK(o.seed == 7);
  CHECK(o.epochs == 3);
  CHECK(o.steps == 11);
  CHECK(o.batch == 16);
  CHECK(o.accumulate == 2);
  CHECK(o.reproducible == 0);
  CHECK(o.rate == 0.5);
  CHECK(o.warmup == 9);
  CHECK(o.weight_decay == 0.1);
  CHECK(o.momentum == 0.8);
  CHECK(o.clip == 2);
  CHECK(o.threads == 3);
  CHECK(o.bucket_mb == 1.5);
  CHECK(o.all_reduce == "tree");
  CHECK(o.checkpoint == "c");
  CHECK(o.save_every == 4);
  CHECK(o.metrics == "m");
  CHECK(o.plot == "p");
  CHECK(o.progress == "bar");
  CHECK_FALSE(o.nesterov);
  CHECK(o.scale_rate);
  CHECK(o.resume);
  CHECK(o.quiet);
}

TEST_CASE("options between ranks arrive") {
  const ImageOptions o =
      parse({"--compress", "float16", "--check-nan", "--check-replicas", "5"}).options;
  CHECK(o.compress == "float16");
  CHECK(o.check_nan);
  CHECK(o.check_replicas == 5);
  CHECK(parse({}).options.compress == "none");
}

TEST_CASE("what is left open follows from the rest") {
  const ImageOptions sgd = parse({"--batch", "16", "--accumulate", "2"}).options;
  CHECK(sgd.samples_per_step(3) == 96);
  CHECK(sgd.peak_rate(3) == 0.02);
  CHECK(sgd.decay() == 5e-4);
  CHECK(sgd.nesterov);
  const ImageOptions adamw =
      parse({"--optimizer", "adamw", "--scale-rate", "--global-batch", "50"}).options;
  CHECK(adamw.samples_per_step(3) == 50);
  CHECK(adamw.peak_rate(3) == doctest::Approx(0.003));
  CHECK(adamw.decay() == 1e-2);
  CHECK_FALSE(parse({"--momentum", "0"}).options.nesterov);
}

TEST_CASE("virtual shards belong to a fixed global batch, or are asked for") {
  const auto shards = [](std::initializer_list<const char*> arguments, int64_t ranks) {
    return parse(arguments).options.virtual_shards(ranks);
  };
  for (int64_t ranks : {1, 2, 4, 8, 16}) CHECK(shards({"--global-batch", "100"}, ranks) == 16);
  CHECK(shards({"--global-batch", "10"}, 4) == 8);
  CHECK(shards({"--global-batch", "100", "--accumulate", "4"}, 4) == 16);
  CHECK(shards({"--global-batch", "104", "--accumulate", "8"}, 4) == 0);
  CHECK(shards({"--global-batch", "100"}, 3) == 0);
  CHECK(shards({"--global-batch", "100"}, 32) == 0);
  CHECK(shards({"--global-batch", "100", "--reproducible", "0"}, 2) == 0);
  CHECK(shards({"--batch", "100"}, 2) == 0);
  CHECK(shards({"--global-batch", "100", "--compress", "powersgd"}, 2) == 0);
  CHECK(shards({"--global-batch", "100", "--reproducible", "4"}, 2) == 4);
  for (int64_t ranks : {3, 8}) {
    CHECK_THROWS_WITH_AS(shards({"--global-batch", "9", "--reproducible", "4"}, ranks),
                         doctest::Contains("--reproducible 4 cannot be shared out to"), ValueError);
  }
  CHECK_THROWS_AS(shards({"--global-batch", "8", "--reproducible", "4", "--accumulate", "4"}, 2),
                  ValueError);
}

TEST_CASE("layouts arrive, and what follows from them") {
  const ImageOptions o = parse_line(
                             "--zero 2 --pipeline 2 --schedule interleaved --chunks 3 --tensor 4 "
                             "--microbatches 6 --batch 5")
                             .options;
  CHECK(o.layout.zero == 2);
  CHECK(o.layout.pipeline == 2);
  CHECK(o.layout.schedule == "interleaved");
  CHECK(o.layout.chunks_of_stage() == 3);
  CHECK(o.layout.tensor == 4);
  CHECK(o.batches_per_step(3) == 6);
  CHECK(o.samples_per_step(3) == 5 * 6 * 3);
  CHECK(o.layout.mesh(24).size("data") == 3);
  CHECK(
      to_string(o.layout, 24) ==
      "2 stages (interleaved) x 3 parts of the data sharing gradients and the optimizer's state x "
      "4 ranks a layer\n");
  CHECK_THROWS_WITH_AS(o.layout.mesh(12),
                       doctest::Contains("are 8 ranks for a sample, which must divide the ranks; "
                                         "there are 12"),
                       ValueError);
  const RankLayout sequences = parse_line("--context-parallel 3 --tensor 2").options.layout;
  CHECK(sequences.mesh(12).size("context") == 3);
  CHECK(sequences.mesh(12).size("data") == 2);
  CHECK(sequences.sequence_parts() == 6);
  CHECK(to_string(sequences, 12) ==
        "2 parts of the data x 3 parts of each sequence x 2 ranks a layer\n");
  const RankLayout between = parse_line("--tensor 2 --sequence-parallel").options.layout;
  CHECK(between.sequence_parts() == 2);
  CHECK(to_string(between, 2) ==
        "1 part of the data x 2 ranks a layer, with parts of the sequence between layers\n");
  CHECK(to_string(RankLayout{}, 4) == "");
  CHECK(RankLayout{.schedule = "gpipe", .chunks = 3}.chunks_of_stage() == 1);

  // Four microbatches a stage, unless the batch cannot be cut so, or virtual shards are more.
  CHECK(parse({"--pipeline", "2"}).options.batches_per_step(1) == 8);
  CHECK(parse({"--pipeline", "2", "--global-batch", "14", "--reproducible", "0"})
            .options.batches_per_step(1) == 7);
  CHECK(parse({"--pipeline", "2", "--global-batch", "64"}).options.batches_per_step(4) == 4);
  CHECK(parse({"--pipeline", "2", "--global-batch", "64", "--microbatches", "8"})
            .options.batches_per_step(4) == 8);
}

TEST_CASE("ranks compare the options that were given, but not what may differ between machines") {
  CHECK(parse({}).shared == "");
  CHECK(parse({"--data", "d", "--threads", "2"}).shared == "");
  CHECK(parse({"--rate", "0.5", "--quiet"}).shared != parse({"--rate", "0.25", "--quiet"}).shared);
}

TEST_CASE("--help names every option") {
  const std::string help = parse({"--help"}).help;
  for (const char* option :
       {"--model",        "--data",          "--epochs",     "--steps",   "--batch",
        "--global-batch", "--rate",          "--scale-rate", "--warmup",  "--optimizer",
        "--accumulate",   "--dropout",       "--seed",       "--threads", "--checkpoint",
        "--resume",       "--metrics",       "--quiet",      "--plot",    "--compress",
        "--check-nan",    "--check-replicas"}) {
    CHECK_MESSAGE(help.find(option) != std::string::npos, option);
  }
  CHECK(parse({}).help == "");
}

TEST_CASE("impossible options are refused") {
  refuse({"--modle", "mlp"}, "--modle");
  refuse({"--all-reduce", "fast"}, "--all-reduce must be automatic, ring, halving_doubling, ");
  refuse({"mlp"}, "mlp");
  refuse({"--rate"}, "--rate");
  refuse({"--rate", "fast"}, "--rate");
  refuse({"--batch", "1.5"}, "--batch");
  refuse({"--seed", "-1"}, "--seed: expected an integer in [0, 18446744073709551615], got -1");
  refuse({"--seed", "18446744073709551616"}, "--seed: expected an integer in [0, 1844674407370955");
  CHECK(parse({"--seed", "18446744073709551615"}).options.seed == UINT64_MAX);
  for (const char* option : {"--batch", "--warmup", "--steps"}) {
    refuse({option, "9223372036854775808"}, std::string(option) + ": expected an integer in [-922");
  }
  refuse({"--batch", "8", "--global-batch", "16"}, "excludes");
  refuse({"--model", "resnet"}, "--model must be mlp or lenet, got resnet");
  refuse({"--optimizer", "lion"}, "--optimizer must be sgd or adamw, got lion");
  refuse({"--dtype", "float8"}, "--dtype must be float32, float64 or bfloat16, got float8");
  refuse({"--progress", "dots"}, "--progress must be");
  for (const char* option : {"--epochs", "--steps", "--batch", "--global-batch", "--accumulate",
                             "--threads", "--save-every", "--check-replicas"}) {
    refuse({option, "0"}, std::string(option) + " must be in [1, ");
    refuse({option, "-3"}, "got -3");
    refuse({option, "9999999999"}, "got 9999999999");
  }
  for (const char* rate : {"0", "-1", "nan", "inf"}) {
    refuse({"--rate", rate}, "--rate must be above 0");
    refuse({"--clip", rate}, "--clip must be above 0");
    refuse({"--bucket-mb", rate}, "--bucket-mb must be");
  }
  for (const char* p : {"1", "-0.1", "nan"}) {
    refuse({"--dropout", p}, "--dropout must be in [0, 1)");
    refuse({"--momentum", p}, "--momentum must be in [0, 1)");
  }
  for (const char* shards : {"-1", "3", "131072"}) {
    refuse({"--reproducible", shards}, "--reproducible must be 0 or a power of two");
  }
  refuse({"--reproducible", "8"}, "--reproducible needs --global-batch");
  refuse({"--weight-decay", "-1"}, "--weight-decay must be 0 or more");
  refuse({"--weight-decay", "nan"}, "--weight-decay must be 0 or more");
  refuse({"--warmup", "-1"}, "--warmup must be 0 or more");
  refuse({"--momentum", "0", "--nesterov"}, "--momentum must be above 0 with --nesterov");
  refuse({"--optimizer", "adamw", "--momentum", "0.5"}, "belong to --optimizer sgd");
  refuse({"--global-batch", "10", "--accumulate", "4"}, "cannot be cut into");
  refuse({"--zero", "4"}, "--zero must be 0, 1, 2 or 3, got 4");
  refuse({"--zero", "-1"}, "--zero must be 0, 1, 2 or 3, got -1");
  refuse({"--schedule", "2f2b"}, "--schedule must be gpipe, 1f1b, interleaved or zb-h1, got 2f2b");
  for (const char* option :
       {"--pipeline", "--tensor", "--context-parallel", "--chunks", "--microbatches"}) {
    refuse({option, "0"}, std::string(option) + " must be in [1, ");
  }
  refuse({"--microbatches", "4"}, "--microbatches are of a --pipeline");
  refuse({"--microbatches", "4", "--accumulate", "2"}, "excludes");
  refuse({"--pipeline", "2", "--global-batch", "10", "--microbatches", "4"}, "cannot be cut into");
  refuse({"--sequence-parallel"}, "--sequence-parallel is of the ranks of --tensor: of 2 or more");
  refuse({"--tensor", "2", "--sequence-parallel", "--context-parallel", "2"},
         "--sequence-parallel does not go with --context-parallel");
  refuse({"--compress", "powersgd", "--tensor", "2"}, "--compress powersgd does not go with");
  refuse({"--zero", "1", "--compress", "bfloat16"}, "--zero 1 does not go with --compress");
  refuse({"--zero", "1", "--bucket-mb", "25"}, "--bucket-mb does not go with --zero 1");
  refuse({"--zero", "2", "--check-replicas", "3"}, "--zero 2 does not go with --compress");
  refuse({"--compress", "zip"}, "--compress must be none, bfloat16, float16 or powersgd, got zip");
  refuse({"--global-batch", "16", "--reproducible", "8", "--compress", "bfloat16"},
         "--reproducible does not go with --compress");
  refuse({"--resume"}, "--resume needs --checkpoint");
  refuse({"--save-every", "5"}, "--save-every needs --checkpoint");
}

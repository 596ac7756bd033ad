#include "models/progress_bar.h"

#include <doctest/doctest.h>

#include <sstream>

using namespace capstan::models;

TEST_CASE("the bar is one line with loss, accuracy, speed and time left") {
  std::ostringstream out;
  {
    ProgressBar bar(out, ProgressStyle::bar, 5, 100, 49);
    bar.step(3, 0.5, 0.75, 64, 0.5);
    CHECK(out.str() ==
          "\r\033[K3/5 [=====>    ] loss 0.5000, accuracy 75.0 %, 128 samples/s, 0:25 left");
    bar.step(3, 0.5, 0.75, 64, 0.5);  // too soon to be drawn
    bar.message("epoch 3 done");
  }
  CHECK(out.str().ends_with("left\r\033[Kepoch 3 done\n"));
}

TEST_CASE("a bar that is left is wiped away") {
  std::ostringstream out;
  { ProgressBar(out, ProgressStyle::bar, 1, 1, 0).step(1, 1, 0, 64, 4000); }
  CHECK(out.str() ==
        "\r\033[K1/1 [==========] loss 1.0000, accuracy 0.0 %, 0 samples/s, 0:00 left\r\033[K");
}

TEST_CASE("lines come rarely, and none means none") {
  std::ostringstream out;
  ProgressBar lines(out, ProgressStyle::lines, 5, 100, 0);
  lines.step(1, 0.5, 0.75, 64, 0.5);
  CHECK(out.str() == "");
  lines.message("hello");
  CHECK(out.str() == "hello\n");
  ProgressBar none(out, ProgressStyle::none, 5, 100, 0);
  none.step(1, 0.5, 0.75, 64, 0.5);
  none.message("hello");
  CHECK(out.str() == "hello\n");
}

TEST_CASE("styles go by name") {
  CHECK(progress_style("bar") == ProgressStyle::bar);
  CHECK(progress_style("lines") == ProgressStyle::lines);
  CHECK(progress_style("none") == ProgressStyle::none);
}

TEST_CASE("the running average starts at the first value and forgets old ones") {
  Smooth average(4);
  CHECK(average.add(8) == 8);
  CHECK(average.add(4) == 6);
  for (int i = 0; i < 100; ++i) average.add(1);
  CHECK(average.average() == doctest::Approx(1));
}

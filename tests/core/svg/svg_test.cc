// SVG elements as text, and the ticks of axes.
#include "core/svg/svg.h"

#include <doctest/doctest.h>

using namespace capstan::svg;

TEST_CASE("elements are what they say") {
  CHECK(
      line(0, 1, 2.25, 3, stroke("#444")) ==
      "<line x1=\"0.0\" y1=\"1.0\" x2=\"2.2\" y2=\"3.0\"  stroke=\"#444\" stroke-width=\"1\"/>\n");
  CHECK(circle(1, 2, 3.5, fill("red")) ==
        "<circle cx=\"1.0\" cy=\"2.0\" r=\"3.5\"  fill=\"red\"/>\n");
  const std::string whole = picture(30, 20, rectangle(1, 2, 3, 4, fill("none")));
  CHECK(whole.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"30\" height=\"20\""));
  CHECK(whole.find("<rect x=\"1.0\" y=\"2.0\" width=\"3.0\" height=\"4.0\"") != std::string::npos);
  CHECK(whole.ends_with("</svg>\n"));
}

TEST_CASE("words may hold any character") {
  CHECK(text(0, 0, "end", "a < b & c > d").ends_with(">a &lt; b &amp; c &gt; d</text>\n"));
}

TEST_CASE("ticks are round, and an axis can be rounded to them") {
  const Axis axis{0, 33, 100, 430};
  CHECK(axis(0) == 100);
  CHECK(axis(33) == 430);
  CHECK(axis(16.5) == 265);
  CHECK(axis.ticks(7) == std::vector<double>{0, 5, 10, 15, 20, 25, 30});
  CHECK(axis.ticks(3) == std::vector<double>{0, 20});
  const Axis rounded = axis.rounded(7);
  CHECK(rounded.low == 0);
  CHECK(rounded.high == 35);
  const Axis around{-0.25, 0.25, 0, 1};
  const std::vector<double> ticks = around.ticks(5);
  REQUIRE(ticks.size() == 5);
  for (int i = 0; i < 5; ++i) CHECK(ticks[i] == doctest::Approx(0.1 * (i - 2)));
}

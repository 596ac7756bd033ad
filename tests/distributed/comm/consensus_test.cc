// Strings, agree() and together().
#include <stdexcept>

#include "distributed/comm/self.h"
#include "distributed/comm/thread.h"
#include "tests/distributed/comm/collectives.h"

namespace {

using namespace capstan;
using namespace capstan::distributed;
using namespace capstan::distributed::testing;

TEST_CASE("strings of any length and content reach all ranks") {
  for (int n = 1; n <= 4; ++n) {
    run_ranks(n, [&](Communicator& c) {
      const auto text = [](int rank) {
        return std::string(rank * 70'000, 'a' + rank) + '\0' + "x";
      };
      const auto texts = c.all_gather_strings(text(c.rank()));
      REQUIRE(static_cast<int>(texts.size()) == n);
      for (int r = 0; r < n; ++r) CHECK(texts[r] == text(r));
      for (const std::string& empty : c.all_gather_strings("")) CHECK(empty.empty());
      for (int r = 0; r < n; ++r) CHECK(c.broadcast_string(text(c.rank()), r) == text(r));
    });
  }
}

TEST_CASE("agree passes equal texts and names the first difference otherwise") {
  run_ranks(3, [](Communicator& c) {
    c.agree("options", "--rate 0.1");
    CHECK(error_of([&] { c.agree("options", c.rank() == 2 ? "--rate 0.2" : "--rate 0.1"); }) ==
          "[agree] options must be the same on all ranks: " + name_of(c, 0) +
              " has '--rate 0.1', " + name_of(c, 2) + " has '--rate 0.2'");
    // Of a long text only the surroundings of the difference are shown, on one line.
    const std::string before(5000, 'b'), after(5000, 'a');
    const std::string text =
        error_of([&] { c.agree("parameters", before + (c.rank() ? "fc\n1" : "fc\n2") + after); });
    CHECK(text.size() < 400);
    CHECK(text.find("bfc 2a") != std::string::npos);
    CHECK(text.find("bfc 1a") != std::string::npos);
    CHECK(text.find('\n') == std::string::npos);
    // A text that begins like another is different too.
    CHECK(error_of([&] { c.agree("names", c.rank() ? "a" : "ab"); }).find("'ab'") !=
          std::string::npos);
    // The communicator is whole.
    CHECK(c.failure().empty());
    c.barrier().wait();
  });
}

TEST_CASE("together gives the error of one rank to all") {
  for (int n = 1; n <= 4; ++n) {
    run_ranks(n, [&](Communicator& c) {
      int ran = 0;
      c.together("counting", [&] { ++ran; });
      CHECK(ran == 1);
      const auto fails_from = [&](int rank) {
        return error_of([&] {
          c.together("reading", [&] {
            if (c.rank() >= rank) throw IoError("[read] no file");
          });
        });
      };
      CHECK(fails_from(0) == "[read] no file");
      if (n > 1) CHECK(fails_from(1) == name_of(c, 1) + ": [read] no file");
      CHECK(fails_from(n) == "");
      // Different messages: the lowest rank's; exceptions of any type.
      const std::string text = error_of([&] {
        c.together("reading", [&]() -> void {
          if (c.rank() == 0) throw std::runtime_error("zero");
          throw 1;
        });
      });
      CHECK(text == (n == 1 ? "zero" : name_of(c, 0) + ": zero"));
      c.barrier().wait();
    });
  }
}

}  // namespace

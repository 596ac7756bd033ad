#include "models/progress_bar.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>

#include "distributed/comm/launch.h"

namespace capstan::models {
namespace {

using namespace std::chrono_literals;

/// A launcher such as mpirun reads what ranks print through a pipe or terminal of its own and
/// prints it again, so there it is the launcher's standard output that counts. It is this process's
/// parent.
bool shown_on_a_terminal() {
  if (!distributed::find_launcher()) return ::isatty(STDOUT_FILENO);
  std::error_code error;
  const auto target =
      std::filesystem::read_symlink(fmt::format("/proc/{}/fd/1", ::getppid()), error);
  return !error &&
         (target.string().starts_with("/dev/pts/") || target.string().starts_with("/dev/tty"));
}

std::string minutes(double seconds) {
  const auto whole = static_cast<int64_t>(std::ceil(seconds));
  if (whole < 3600) return fmt::format("{}:{:02}", whole / 60, whole % 60);
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

constexpr int kWidth = 10;                         // of the bar
constexpr const char* kBackAndClear = "\r\033[K";  // to the line's start; clear it

}  // namespace

ProgressStyle progress_style(const std::string& name) {
  if (name == "none") return ProgressStyle::none;
  if (name == "bar" || (name == "auto" && shown_on_a_terminal())) return ProgressStyle::bar;
  return ProgressStyle::lines;
}

ProgressBar::ProgressBar(std::ostream& out, ProgressStyle style, int64_t epochs, int64_t steps,
                         int64_t step)
    : out_(out), style_(style), epochs_(epochs), steps_(steps), step_(step) {
  next_draw_ = distributed::Clock::now() + (style == ProgressStyle::lines ? 10s : 0s);
}

ProgressBar::~ProgressBar() {
  if (drawn_) out_ << kBackAndClear << std::flush;
}

void ProgressBar::step(int64_t epoch, double loss, double accuracy, int64_t samples,
                       double seconds) {
  ++step_;
  loss_.add(loss);
  accuracy_.add(accuracy);
  samples_.add(static_cast<double>(samples));
  seconds_.add(seconds);
  const auto now = distributed::Clock::now();
  if (style_ == ProgressStyle::none || now < next_draw_) return;
  if (style_ == ProgressStyle::bar) {
    out_ << kBackAndClear << text(epoch) << std::flush;
    next_draw_ = now + 100ms;
    drawn_ = true;
  } else {
    out_ << text(epoch) << std::endl;
    next_draw_ = now + 10s;
  }
}

void ProgressBar::message(const std::string& text) {
  if (style_ == ProgressStyle::none) return;
  if (drawn_) out_ << kBackAndClear;
  drawn_ = false;
  out_ << text << std::endl;
}

std::string ProgressBar::text(int64_t epoch) const {
  const auto filled = static_cast<int>(step_ * kWidth / steps_);
  std::string bar(filled, '=');
  if (filled < kWidth) bar += '>';
  const double seconds = seconds_.average();
  return fmt::format("{}/{} [{:<{}}] loss {:.4f}, accuracy {:.1f} %, {:.0f} samples/s, {} left",
                     epoch, epochs_, bar, kWidth, loss_.average(), 100 * accuracy_.average(),
                     seconds > 0 ? samples_.average() / seconds : 0.0,
                     minutes(seconds * static_cast<double>(steps_ - step_)));
}

}  // namespace capstan::models

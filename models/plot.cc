// Reading order: the parts of the picture from back to front, write_plot().
#include "models/plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/atomic_file.h"
#include "core/svg/svg.h"

namespace capstan::models {
namespace {

using namespace svg;

constexpr int kWidth = 800, kHeight = 480;                         // pixels
constexpr int kLeft = 72, kRight = 728, kTop = 84, kBottom = 416;  // of the frame
constexpr const char *kLossColor = "#1f5fa8", *kAccuracyColor = "#c2571a";

struct Point {
  double x, y;
};

std::string polyline(const std::vector<Point>& points, const char* color, double width,
                     double opacity = 1) {
  std::string out = fmt::format(
      "<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"{}\" stroke-opacity=\"{}\" "
      "stroke-linejoin=\"round\" points=\"",
      color, width, opacity);
  for (const Point& p : points) out += fmt::format("{:.1f},{:.1f} ", p.x, p.y);
  return out + "\"/>\n";
}

std::string frame(const Axis& x, const Axis& loss, const Axis& accuracy,
                  const std::string& accuracy_name) {
  std::string out;
  for (double value : loss.ticks(5)) {
    out += line(kLeft, loss(value), kRight, loss(value), stroke("#e4e4e4"));
    out += text(kLeft - 8, loss(value) + 4, "end", fmt::format("{:.6g}", value), fill(kLossColor));
  }
  for (double value : accuracy.ticks(5)) {
    out += line(kRight, accuracy(value), kRight + 5, accuracy(value), stroke("#444"));
    out += text(kRight + 8, accuracy(value) + 4, "start", fmt::format("{:.6g}", value),
                fill(kAccuracyColor));
  }
  for (double value : x.ticks(8)) {
    out += line(x(value), kBottom, x(value), kBottom + 5, stroke("#444"));
    out += text(x(value), kBottom + 20, "middle", fmt::format("{:.6g}", value));
  }
  const auto turned = [](int at, const char* color) {
    const int middle = (kTop + kBottom) / 2;
    return fmt::format(" transform=\"rotate(-90 {} {})\"{}", at, middle, fill(color));
  };
  const int middle = (kTop + kBottom) / 2;
  out += text((kLeft + kRight) / 2.0, kBottom + 44, "middle", "step");
  out += text(22, middle, "middle", "training loss", turned(22, kLossColor));
  out += text(kWidth - 16, middle, "middle", accuracy_name + ", %",
              turned(kWidth - 16, kAccuracyColor));
  return out +
         rectangle(kLeft, kTop, kRight - kLeft, kBottom - kTop, fill("none") + stroke("#444"));
}

std::string legend(const std::string& accuracy) {
  constexpr int kY = 62;
  return line(kLeft, kY - 4, kLeft + 24, kY - 4, stroke(kLossColor, 2)) +
         text(kLeft + 30, kY, "start", "training loss, smoothed (pale: each step)") +
         line(kLeft + 330, kY - 4, kLeft + 354, kY - 4, stroke(kAccuracyColor, 2)) +
         circle(kLeft + 342, kY - 4, 3.5, fill(kAccuracyColor)) +
         text(kLeft + 360, kY, "start", accuracy);
}

/// The losses cut into at most `most` runs of steps, a point each: no screen shows more.
std::vector<Point> thinned(const std::vector<StepRecord>& steps, size_t most) {
  const size_t run = (steps.size() + most - 1) / std::max<size_t>(most, 1);
  std::vector<Point> points;
  for (size_t begin = 0; begin < steps.size(); begin += run) {
    const size_t end = std::min(begin + run, steps.size());
    double sum = 0;
    for (size_t i = begin; i < end; ++i) sum += steps[i].loss;
    points.push_back(
        {static_cast<double>(steps[end - 1].step), sum / static_cast<double>(end - begin)});
  }
  return points;
}

/// Each value becomes the mean of itself, up to `reach` values before it and as many after it, so
/// that the curve does not lag behind.
std::vector<Point> smoothed(const std::vector<Point>& points, int64_t reach) {
  std::vector<Point> out = points;
  const int64_t count = std::ssize(points);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t near = std::min(reach, i);
    const int64_t begin = i - near, end = std::min(i + near + 1, count);
    double sum = 0;
    for (int64_t k = begin; k < end; ++k) sum += points[k].y;
    out[i].y = sum / static_cast<double>(end - begin);
  }
  return out;
}

}  // namespace

void write_plot(const std::string& path, const Metrics& metrics, const std::string& title,
                const std::string& accuracy_name) {
  const std::vector<Point> losses = thinned(metrics.steps(), 1000);
  double last_step = 1, highest_loss = 0, lowest_accuracy = 100;
  for (const Point& p : losses) {
    last_step = std::max(last_step, p.x);
    highest_loss = std::max(highest_loss, p.y);
  }
  for (const EvaluationRecord& e : metrics.evaluations()) {
    last_step = std::max(last_step, static_cast<double>(e.step));
    lowest_accuracy = std::min(lowest_accuracy, 100 * e.test_accuracy);
  }
  const Axis x{0, last_step, kLeft, kRight};
  const Axis loss = Axis{0, highest_loss > 0 ? highest_loss : 1, kBottom, kTop}.rounded(5);
  const Axis accuracy = Axis{std::min(lowest_accuracy, 95.0), 100, kBottom, kTop}.rounded(5);

  const auto placed = [&](std::vector<Point> points) {
    for (Point& p : points) p = {x(p.x), loss(p.y)};
    return points;
  };
  std::vector<Point> tested;
  for (const EvaluationRecord& e : metrics.evaluations()) {
    tested.push_back({x(static_cast<double>(e.step)), accuracy(100 * e.test_accuracy)});
  }

  std::string elements =
      text(kLeft, 34, "start", title, " font-size=\"17\" font-weight=\"bold\"") +
      legend(accuracy_name) + frame(x, loss, accuracy, accuracy_name) +
      polyline(placed(losses), kLossColor, 1, 0.25) +
      polyline(placed(smoothed(losses, std::ssize(losses) / 50)), kLossColor, 2) +
      polyline(tested, kAccuracyColor, 2);
  for (const Point& p : tested) elements += circle(p.x, p.y, 3.5, fill(kAccuracyColor));
  write_atomically(path, [&](std::ostream& out) { out << picture(kWidth, kHeight, elements); });
}

}  // namespace capstan::models

#include "core/svg/svg.h"

#include <fmt/format.h>

#include <cmath>

namespace capstan::svg {
namespace {

std::string escaped(const std::string& words) {
  std::string out;
  for (char c : words) {
    out += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : std::string(1, c);
  }
  return out;
}

/// The distance of about `count` ticks: 1, 2 or 5 times a power of ten.
double tick(const Axis& axis, int count) {
  const double rough = (axis.high - axis.low) / count;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  for (double factor : {1, 2, 5}) {
    if (factor * power >= rough * 0.999) return factor * power;
  }
  return 10 * power;
}

}  // namespace

std::string fill(const std::string& color) { return fmt::format(" fill=\"{}\"", color); }

std::string stroke(const std::string& color, double width) {
  return fmt::format(" stroke=\"{}\" stroke-width=\"{}\"", color, width);
}

std::string text(double x, double y, const std::string& anchor, const std::string& words,
                 const std::string& attributes) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" {}>{}</text>\n", x, y,
                     anchor, attributes, escaped(words));
}

std::string line(double x1, double y1, double x2, double y2, const std::string& attributes) {
  return fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" {}/>\n", x1, y1,
                     x2, y2, attributes);
}

std::string rectangle(double x, double y, double width, double height,
                      const std::string& attributes) {
  return fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" {}/>\n", x,
                     y, width, height, attributes);
}

std::string circle(double x, double y, double radius, const std::string& attributes) {
  return fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{:.1f}\" {}/>\n", x, y, radius,
                     attributes);
}

std::string picture(double width, double height, const std::string& elements) {
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" "
             "viewBox=\"0 0 {0} {1}\" font-family=\"sans-serif\" font-size=\"13\" fill=\"#222\">\n",
             width, height) +
         rectangle(0, 0, width, height, fill("#fff")) + elements + "</svg>\n";
}

std::vector<double> Axis::ticks(int count) const {
  const double step = tick(*this, count);
  std::vector<double> values;
  for (double i = std::ceil(low / step - 1e-9); i * step <= high + step * 1e-9; ++i) {
    values.push_back(i * step + 0.0);  // + 0.0 makes a -0 a 0
  }
  return values;
}

Axis Axis::rounded(int count) const {
  const double step = tick(*this, count);
  return {std::floor(low / step + 1e-9) * step, std::ceil(high / step - 1e-9) * step, from, to};
}

}  // namespace capstan::svg

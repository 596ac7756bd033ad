// Defines what pictures are made of: SVG elements as text, and Axis, which lays numbers over
// pixels.
//
// A picture is the sum of its elements, those in front last:
//   out << svg::picture(800, 480, svg::line(0, 0, 800, 480, svg::stroke("#444")) + ...);
#pragma once

#include <string>
#include <vector>

namespace capstan::svg {

/// Attributes.
std::string fill(const std::string& color);
std::string stroke(const std::string& color, double width = 1);

// Elements; `attributes` as in SVG. Coordinates are pixels, to the right and down.

/// `anchor`: start, middle or end. The words may hold any character.
std::string text(double x, double y, const std::string& anchor, const std::string& words,
                 const std::string& attributes = "");
std::string line(double x1, double y1, double x2, double y2, const std::string& attributes);
std::string rectangle(double x, double y, double width, double height,
                      const std::string& attributes);
std::string circle(double x, double y, double radius, const std::string& attributes);

/// The whole file, on white.
std::string picture(double width, double height, const std::string& elements);

/// A range of values laid over a range of pixels.
struct Axis {
  double low, high;
  double from, to;  // pixels of low and high

  double operator()(double value) const {
    return from + (to - from) * (value - low) / (high - low);
  }
  /// Round values, about `count` of them: multiples of 1, 2 or 5 times a power of ten.
  std::vector<double> ticks(int count) const;
  /// The same axis with both ends moved out to ticks.
  Axis rounded(int count) const;
};

}  // namespace capstan::svg

#include "distributed/pipeline/draw.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/atomic_file.h"
#include "core/raise.h"
#include "core/svg/svg.h"
#include "distributed/pipeline/check.h"

namespace capstan::distributed::pipeline {
namespace {

using namespace svg;

void check_timeline(const char* op, const Schedule& schedule, const Timeline& timeline) {
  if (std::ssize(timeline.stages) != schedule.stages) {
    raise<ValueError>("[{}] a timeline has {} stages, {} has {}", op, timeline.stages.size(),
                      schedule.name, schedule.stages);
  }
  for (const auto& spans : timeline.stages) {
    for (const auto& [pass, begin, end] : spans) {
      if (std::isfinite(begin) && std::isfinite(end) && begin <= end) continue;
      raise<ValueError>("[{}] a pass ends after it begins, got {} to {} for {}", op, begin, end,
                        to_string(schedule, pass));
    }
  }
}

/// The first begin: where a picture's time is 0.
double begin_of(const Timeline& timeline) {
  double first = std::numeric_limits<double>::infinity();
  for (const auto& spans : timeline.stages) {
    for (const Span& span : spans) first = std::min(first, span.begin);
  }
  return std::isfinite(first) ? first : 0;
}

constexpr double kWidth = 1200, kLeft = 80, kRight = 1080;  // pixels
constexpr double kRow = 26, kHead = 34, kFoot = 34;         // of a panel
constexpr double kTitle = 66;                               // of the picture

std::string color_of(Kind kind) {
  switch (kind) {
    case Kind::forward:
      return "#6f9fd8";
    case Kind::backward:
      return "#7dbb72";
    case Kind::backward_input:
      return "#58b5ad";
    default:
      return "#e3a857";
  }
}

std::string legend(const Schedule& schedule) {
  struct Entry {
    Kind kind;
    const char* words;
  };
  std::string out;
  double x = kLeft;
  for (const auto& [kind, words] : {Entry{Kind::forward, "forward"},
                                    {Kind::backward, "backward"},
                                    {Kind::backward_input, "backward, of the input"},
                                    {Kind::backward_weight, "backward, of the weights"}}) {
    const bool used = std::ranges::any_of(
        schedule.lists[0], [kind = kind](const Instruction& i) { return i.kind == kind; });
    if (!used) continue;
    out += rectangle(x, kTitle - 22, 14, 14, fill(color_of(kind)));
    out += text(x + 20, kTitle - 10, "start", words);
    x += 190;
  }
  return out;
}

std::string box(const Schedule& schedule, const Span& span, double left, double right, double top) {
  const int chunk = span.pass.chunk / schedule.stages;  // of the stage
  const double opacity = 1 - 0.6 * chunk / schedule.chunks;
  std::string out =
      rectangle(left, top + 2, right - left, kRow - 4,
                fill(color_of(span.pass.kind)) + fmt::format(" fill-opacity=\"{:.2f}\"", opacity) +
                    stroke("#fff", 0.6));
  const std::string label = std::to_string(span.pass.microbatch);
  if (right - left >= 7.0 * static_cast<double>(label.size()) + 2) {
    out += text((left + right) / 2, top + kRow / 2 + 4, "middle", label, "font-size=\"11\"");
  }
  return out;
}

std::string draw_panel(const Schedule& schedule, const Panel& panel, const std::vector<int>& live,
                       const Axis& time, double top) {
  const Timeline& timeline = panel.timeline;
  const double begin = begin_of(timeline), makespan = timeline.makespan();
  std::string out = text(kLeft, top + 22, "start",
                         fmt::format("{}: {:.6g} long, bubble {:.1f} %", panel.title, makespan,
                                     100 * timeline.bubble()),
                         "font-weight=\"bold\"");
  out += text(kRight + 10, top + 22, "start", "idle", "font-size=\"11\"");
  out += text(kRight + 62, top + 22, "start", "keeps", "font-size=\"11\"");
  top += kHead;
  for (int stage = 0; stage < schedule.stages; ++stage, top += kRow) {
    const double middle = top + kRow / 2 + 4;
    out += text(kLeft - 8, middle, "end", fmt::format("stage {}", stage));
    out += rectangle(kLeft, top + 2, time(makespan) - kLeft, kRow - 4, fill("#eeeeee"));
    for (const Span& span : timeline.stages[stage]) {
      out += box(schedule, span, time(span.begin - begin), time(span.end - begin), top);
    }
    const double idle = makespan > 0 ? 100 * timeline.idle(stage) / makespan : 0;
    out += text(kRight + 10, middle, "start", fmt::format("{:.1f} %", idle));
    out += text(kRight + 62, middle, "start", std::to_string(live[stage]));
  }
  for (double tick : time.ticks(10)) {
    out += line(time(tick), top, time(tick), top + 5, stroke("#444"));
    out += text(time(tick), top + 18, "middle", fmt::format("{:.6g}", tick), "font-size=\"11\"");
  }
  return out;
}

}  // namespace

void write_drawing(const std::string& path, const Schedule& schedule,
                   const std::vector<Panel>& panels) {
  if (panels.empty()) raise<ValueError>("[write_drawing] needs a panel to draw");
  double longest = 0;
  for (const Panel& panel : panels) {
    check_timeline("write_drawing", schedule, panel.timeline);
    longest = std::max(longest, panel.timeline.makespan());
  }
  const Axis time{0, longest > 0 ? longest : 1, kLeft, kRight};
  const std::vector<int> live = peak_live(schedule);
  std::string elements =
      text(kLeft, 30, "start",
           fmt::format("{}: stages {}, chunks a stage {}, microbatches {}", schedule.name,
                       schedule.stages, schedule.chunks, schedule.microbatches),
           "font-size=\"17\" font-weight=\"bold\"") +
      legend(schedule);
  const double height = kHead + kRow * schedule.stages + kFoot;
  double top = kTitle;
  for (const Panel& panel : panels) {
    elements += draw_panel(schedule, panel, live, time, top);
    top += height;
  }
  write_atomically(path, [&](std::ostream& out) { out << picture(kWidth, top, elements); });
}

std::string draw_text(const Schedule& schedule, const Timeline& timeline, int columns) {
  if (columns < 1) raise<ValueError>("[draw_text] needs 1 or more columns, got {}", columns);
  check_timeline("draw_text", schedule, timeline);
  const auto label = [&](const Span& span) { return to_string(schedule, span.pass); };
  double scale = 0;  // columns of a unit of time
  for (const auto& spans : timeline.stages) {
    for (const Span& span : spans) {
      if (span.end <= span.begin) continue;
      scale = std::max(scale, std::ceil((static_cast<double>(label(span).size()) + 1) /
                                        (span.end - span.begin)));
    }
  }
  const double makespan = timeline.makespan(), begin = begin_of(timeline);
  if (scale * makespan > columns) scale = columns / makespan;
  std::string drawing;
  for (int stage = 0; stage < schedule.stages; ++stage) {
    std::string row(static_cast<size_t>(std::lround(scale * makespan)) + 1, '.');
    for (const Span& span : timeline.stages[stage]) {
      const auto column = [&](double t) { return std::lround(scale * (t - begin)); };
      const size_t left = column(span.begin), right = column(span.end);
      std::string box = label(span);
      box.resize(right > left ? right - left - 1 : 0, ' ');
      row.replace(left, right - left + 1, (right > left ? "|" : "") + box + "|");
    }
    drawing += fmt::format("stage {:<3} {}\n", stage, row);
  }
  return drawing;
}

}  // namespace capstan::distributed::pipeline

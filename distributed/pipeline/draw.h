// Defines drawings of timelines, for people: time to the right, a row a stage, a box a pass.
//
// Put what was planned over what was measured, in the same unit of time, and a slow stage, a late
// message or a wrong guess at a cost is where the two differ.
#pragma once

#include <string>
#include <vector>

#include "distributed/pipeline/schedule.h"
#include "distributed/pipeline/simulate.h"

namespace capstan::distributed::pipeline {

/// For a terminal: '|' begins a pass, dots are idle. Each unit of time is as wide as labels need;
/// if that is wider than `columns`, labels go, and boxes get the first letters of theirs.
std::string draw_text(const Schedule& schedule, const Timeline& timeline, int columns = 120);

/// One timeline of a picture.
struct Panel {
  std::string title;
  Timeline timeline;
};

/// Writes an SVG file, atomically: the panels one above the other, over one scale of time, each
/// beginning with its first pass. Colours say the kind of a pass, paler ones a later chunk of the
/// stage, numbers the microbatch. Beside each row stand its idle part and what it keeps at most.
/// Throws IoError if the disk refuses, ValueError for no panel and as draw_text().
void write_drawing(const std::string& path, const Schedule& schedule,
                   const std::vector<Panel>& panels);

}  // namespace capstan::distributed::pipeline

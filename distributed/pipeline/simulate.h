// Defines simulate(), which runs a schedule on paper, and Timeline, what came of it.
//
// The model: a stage runs its list in order, an instruction after the other. A pass takes its time.
// A send takes none of the sender's; its message arrives `transfer` later, and the receiver waits
// for it in its receive. So the simulation is exact where messages are carried beside the
// computing, and stages that end up waiting for one another are found before the first step, not as
// a hang in the middle of a run.
#pragma once

#include <functional>
#include <vector>

#include "distributed/pipeline/schedule.h"

namespace capstan::distributed::pipeline {

/// Times of one microbatch in all chunks of a stage, in any unit; each chunk takes its share. A
/// whole backward pass takes both halves' time.
struct Durations {
  double forward = 1;
  double backward_input = 1;
  double backward_weight = 1;
  double transfer = 0;  // of one message
};

/// The time of a pass, or of the message of a send.
using DurationOf = std::function<double(const Instruction&)>;

/// A pass, and when it ran.
struct Span {
  Instruction pass;
  double begin, end;
};

/// When the passes of each stage ran: simulated or measured.
struct Timeline {
  std::vector<std::vector<Span>> stages;

  /// From the first begin to the last end.
  double makespan() const;
  double busy(int stage) const;
  double idle(int stage) const { return makespan() - busy(stage); }
  /// Idle time as a part of the time of work, over all stages: (p - 1) / m of an ideal 1F1B.
  double bubble() const;
};

/// Whether a send waits for its receive. With `wait`, a rank would send by blocking calls, as in a
/// simple program with MPI_Send and MPI_Recv of large messages: GPipe lives with that, 1F1B does
/// not.
enum class Sends : uint8_t { go_on, wait };

/// Runs the lists. Throws ValueError for what check() refuses, for stages that wait for one another
/// (it names the circle), and for times that are negative or not finite.
Timeline simulate(const Schedule& schedule, const Durations& durations = {},
                  Sends sends = Sends::go_on);
Timeline simulate(const Schedule& schedule, const DurationOf& duration, Sends sends = Sends::go_on);

}  // namespace capstan::distributed::pipeline

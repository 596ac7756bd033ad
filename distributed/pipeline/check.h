// Defines check(), which holds a schedule to its rules, and peak_live(), which counts what it
// keeps.
//
// Both read the lists without running them; whether stages end up waiting for one another depends
// on several lists at once, and is simulate()'s to say. The schedules of schedule.h pass by
// construction; this is for those written by hand, and for the day that somebody adds one.
#pragma once

#include <vector>

#include "distributed/pipeline/schedule.h"

namespace capstan::distributed::pipeline {

/// Throws ValueError, naming the schedule, the stage and the instruction, unless
/// - each stage takes every microbatch through each of its chunks exactly once: forward, and in
///   training backward, whole or in both halves;
/// - what an instruction needs is there: received or computed before it, and not yet dropped;
/// - whatever the next or the previous chunk needs is sent, and all is dropped in the end;
/// - messages of one kind from one stage to another are received in the order they are sent, so
///   that a queue for each will do.
void check(const Schedule& schedule);

/// The most pairs of chunk and microbatch that each stage keeps activations of at once, from their
/// forward pass to free_all. A chunk is a `chunks`-th of a stage's layers.
std::vector<int> peak_live(const Schedule& schedule);

}  // namespace capstan::distributed::pipeline

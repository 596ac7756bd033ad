// Any schedule, for property tests.
#pragma once

#include <rapidcheck.h>

#include "distributed/pipeline/schedule.h"

namespace capstan::distributed::pipeline::testing {

/// One of schedule.h's, of up to 6 stages, 4 chunks and some 20 microbatches.
inline Schedule any_schedule() {
  const std::string name = *rc::gen::elementOf(schedule_names());
  const bool interleaved = name == "interleaved", forward = name == "forward";
  const int stages = *rc::gen::inRange(interleaved ? 2 : 1, 7);
  const int chunks = interleaved || (forward && stages > 1) ? *rc::gen::inRange(1, 5) : 1;
  const int microbatches =
      interleaved ? stages * *rc::gen::inRange(1, 5) : *rc::gen::inRange(1, 20);
  return make_schedule(name, stages, chunks, microbatches);
}

}  // namespace capstan::distributed::pipeline::testing

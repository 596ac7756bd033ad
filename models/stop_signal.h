// Defines how a running program is asked to stop: SIGTERM and SIGINT become a flag, which a
// training loop looks at between steps, so that it can save what it has. It may never come to look,
// if it waits for a rank that is dead and the launcher kills it next: so the flight records are
// left at once, and taken back if the program ends well (run_main).
#pragma once

#include <chrono>

namespace capstan::models {

/// Signals within this time are one request: launchers signal a process and then its group, so that
/// one Ctrl-C arrives twice.
inline constexpr std::chrono::milliseconds kSameRequest{1000};

/// From now on a SIGTERM or SIGINT only sets the flag; one that comes later than kSameRequest after
/// the first ends the program.
void catch_stop_signals();

/// True once a signal has come.
bool stop_requested();

}  // namespace capstan::models

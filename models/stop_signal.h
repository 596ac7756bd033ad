// Defines how a running program is asked to stop: SIGTERM and SIGINT become a flag, which a
// training loop looks at between steps, so that it can save what it has.
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

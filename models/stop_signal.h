// Defines how a running program is asked to stop: SIGTERM and SIGINT become a flag, which a
// training loop looks at between steps, so that it can save what it has.
#pragma once

namespace capstan::models {

/// From now on the first SIGTERM or SIGINT only sets the flag; a second one ends the program.
void catch_stop_signals();

/// True once a signal has come.
bool stop_requested();

}  // namespace capstan::models

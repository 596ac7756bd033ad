// Implements Watchdog.
#include "distributed/comm/watchdog.h"

#include <errno.h>
#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <stop_token>

#include "distributed/comm/launch.h"

namespace capstan::distributed {

Watchdog::Watchdog(std::string text, std::chrono::milliseconds limit, std::string advice)
    : thread_([=, limit = std::max(limit, kShortest)](std::stop_token stop) {
        std::mutex mutex;
        std::condition_variable_any never;
        std::unique_lock lock(mutex);
        const auto turn = std::min(launched_rank(), 10) * std::chrono::milliseconds(300);
        never.wait_for(lock, stop, limit + turn, [] { return false; });
        if (stop.stop_requested()) return;
        const std::string line =
            fmt::format("{}: {} within {} s: {}\n", program_invocation_short_name, text,
                        static_cast<double>(limit.count()) / 1000, advice);
        std::fwrite(line.data(), 1, line.size(), stderr);
        std::_Exit(1);
      }) {}

}  // namespace capstan::distributed

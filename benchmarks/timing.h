// Defines the clock of the benchmarks: medians, because machines are noisy, and two things to be
// compared measured in turns.
//
// With one thread it counts the time that the thread ran, so that other programs on the machine
// disturb only through the caches; with several it counts the time that passed.
#pragma once

#include <time.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "core/threads.h"

namespace capstan::benchmarks {

inline double now() {
  timespec time;
  clock_gettime(thread_count() == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

template <class F>
double seconds(int64_t calls, const F& f) {
  const double start = now();
  for (int64_t i = 0; i < calls; ++i) f();
  return now() - start;
}

/// Calls that take long enough together for the clock not to matter. Warms up as well.
template <class F>
int64_t calls_per_sample(const F& f) {
  seconds(1, f);
  int64_t calls = 1;
  while (seconds(calls, f) < 5e-5 && calls < 1 << 20) calls *= 2;
  return calls;
}

inline double median(std::vector<double>& values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

/// The median times of one call of f and of g, in turns over about `budget` seconds.
template <class F, class G>
std::pair<double, double> median_seconds_of_two(const F& f, const G& g, double budget = 0.5) {
  const int64_t f_calls = calls_per_sample(f), g_calls = calls_per_sample(g);
  std::vector<double> f_times, g_times;
  for (double spent = 0; spent < budget || f_times.size() < 5;) {
    f_times.push_back(seconds(f_calls, f));
    g_times.push_back(seconds(g_calls, g));
    spent += f_times.back() + g_times.back();
  }
  return {median(f_times) / static_cast<double>(f_calls),
          median(g_times) / static_cast<double>(g_calls)};
}

/// The median time of one call of f, over about `budget` seconds.
template <class F>
double median_seconds(const F& f, double budget = 0.3) {
  const int64_t calls = calls_per_sample(f);
  std::vector<double> times;
  for (double spent = 0; spent < budget || times.size() < 5; spent += times.back()) {
    times.push_back(seconds(calls, f));
  }
  return median(times) / static_cast<double>(calls);
}

}  // namespace capstan::benchmarks

// Implements ProcessWatch, by a pidfd (pidfd_open(2)) for each process: a file that can be read
// when the process has ended, whoever's child it is, and that no later process of that number has.
#include "distributed/comm/process_watch.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <fstream>

namespace capstan::distributed {
namespace {

// Of a process on this machine and in this process namespace, where numbers mean the same.
std::string place_of_numbers() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  char processes[64] = {};
  if (::readlink("/proc/self/ns/pid", processes, sizeof processes - 1) <= 0) return {};
  return boot + " " + processes + " ";
}

int open_process(const std::string& description, const std::string& place) {
  if (place.empty() || !description.starts_with(place)) return -1;
  const int number = std::atoi(description.c_str() + place.size());
  if (number == ::getpid()) return -1;
  return static_cast<int>(::syscall(SYS_pidfd_open, number, 0));  // glibc has no name for it in C++
}

}  // namespace

std::string ProcessWatch::here() { return fmt::format("{}{}", place_of_numbers(), ::getpid()); }

ProcessWatch::ProcessWatch(const std::vector<std::string>& processes) : ended_(processes.size()) {
  const std::string place = place_of_numbers();
  for (const std::string& process : processes) {
    files_.push_back(open_process(process, place));
  }
}

ProcessWatch::~ProcessWatch() {
  for (int file : files_) {
    if (file >= 0) ::close(file);
  }
}

bool ProcessWatch::look() {
  const auto now = Clock::now().time_since_epoch().count();
  auto next = next_look_.load();
  if (now < next) return any_;
  const auto after = now + std::chrono::duration_cast<Clock::duration>(kBetweenLooks).count();
  if (!next_look_.compare_exchange_strong(next, after)) return any_;  // another thread looks
  std::vector<pollfd> files;
  for (int file : files_) files.push_back({file, POLLIN, 0});
  if (::poll(files.data(), files.size(), 0) <= 0) return any_;
  for (size_t i = 0; i < files.size(); ++i) {
    if (files[i].revents) ended_[i] = true;
  }
  any_ = true;
  return true;
}

}  // namespace capstan::distributed

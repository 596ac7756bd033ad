// write_atomically(): write aside, fsync, rename, fsync the folder.
//
// rename(2) replaces a name at once, but orders nothing on the disk: without the first fsync a
// power cut may leave the new name with old blocks, without the second one the old name.
#include "core/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <regex>

#include "core/raise.h"

namespace capstan {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const fs::path& path, const char* action) {
  raise<IoError>("[write_atomically] cannot {} {}: {}", action, path.string(),
                 std::strerror(errno));
}

void flush_to_disk(const fs::path& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) fail(path, "open");
  const bool flushed = ::fsync(file) == 0;
  const int error = errno;
  ::close(file);
  errno = error;
  if (!flushed) fail(path, "flush");
}

fs::path folder_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

/// Ranks may be threads of one process, so the process id alone does not make a name unique.
fs::path name_aside(const fs::path& path) {
  static std::atomic<int> count{0};
  return fmt::format("{}.{}-{}.tmp", path.string(), ::getpid(), count++);
}

/// The file beside `path` that is to take its place; removed at the end unless it was renamed.
class Aside {
 public:
  explicit Aside(const std::string& path) {
    std::error_code ignored;
    // What a link points to is written, and the link stays.
    target_ = fs::is_symlink(path, ignored) ? fs::weakly_canonical(path) : fs::path(path);
    const fs::file_status status = fs::status(target_, ignored);
    if (fs::exists(status) && !fs::is_regular_file(status)) {
      raise<IoError>("[write_atomically] {} exists and is not a file", path);
    }
    path_ = name_aside(target_);
    out_.open(path_, std::ios::binary | std::ios::trunc);
    if (!out_) fail(path_, "create");
    if (fs::exists(status)) fs::permissions(path_, status.permissions(), ignored);
  }
  ~Aside() { ::unlink(path_.c_str()); }

  std::ostream& out() { return out_; }

  void rename_to_target() {
    out_.close();
    if (!out_) fail(path_, "write");
    flush_to_disk(path_);
    if (::rename(path_.c_str(), target_.c_str()) != 0) fail(target_, "rename a file to");
    flush_to_disk(folder_of(target_));
  }

 private:
  fs::path target_, path_;
  std::ofstream out_;
};

}  // namespace

void write_atomically(const std::string& path, const std::function<void(std::ostream&)>& write) {
  Aside aside(path);
  write(aside.out());
  aside.rename_to_target();
}

void check_writable(const std::string& path) { const Aside made(path); }

void remove_leftovers(const std::string& path) {
  static const std::regex aside("\\.[0-9]+-[0-9]+\\.tmp");  // as name_aside() makes them
  const std::string name = fs::path(path).filename();
  std::error_code ignored;  // what cannot be listed or removed stays
  for (const auto& entry : fs::directory_iterator(folder_of(path), ignored)) {
    const std::string other = entry.path().filename();
    if (other.starts_with(name) && std::regex_match(other.substr(name.size()), aside)) {
      fs::remove(entry, ignored);
    }
  }
}

}  // namespace capstan

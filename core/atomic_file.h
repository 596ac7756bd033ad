// Defines write_atomically(), the one way in which Capstan writes files that somebody may read
// while, or after, a program dies: checkpoints, manifests, pictures; and what belongs to it:
// check_writable(), before the work whose result is to be written, and remove_leftovers(), after a
// crash.
#pragma once

#include <functional>
#include <ostream>
#include <string>

namespace capstan {

/// Writes `path` so that it holds either its old contents or all of the new ones, never a part.
/// `write` fills a file beside it ("PATH.PID-NUMBER.tmp"), which is flushed to the disk and then
/// renamed. If anything fails, `write` included, that file is removed and `path` stays as it was.
/// A file that is replaced hands down its mode. Throws IoError if the folder or the disk refuses,
/// or if `path` is a folder or a device.
void write_atomically(const std::string& path, const std::function<void(std::ostream&)>& write);

/// Throws the IoError that write_atomically(path) would begin with now; leaves `path` as it is.
void check_writable(const std::string& path);

/// Removes the files that writers of `path` left beside it when they were killed. For a moment when
/// nobody writes `path`.
void remove_leftovers(const std::string& path);

}  // namespace capstan

// Defines write_atomically(), the one way in which Capstan writes files that somebody may read
// while, or after, a program dies: checkpoints, manifests, pictures; and remove_leftovers().
#pragma once

#include <functional>
#include <ostream>
#include <string>

namespace capstan {

/// Writes `path` so that it holds either its old contents or all of the new ones, never a part.
/// `write` fills a file beside it ("PATH.PID-NUMBER.tmp"), which is flushed to the disk and then
/// renamed. If anything fails, `write` included, that file is removed and `path` stays as it was.
/// Throws IoError if the folder or the disk refuses, or if `path` is a folder or a device.
void write_atomically(const std::string& path, const std::function<void(std::ostream&)>& write);

/// Removes the files that writers of `path` left beside it when they were killed. For a moment when
/// nobody writes `path`.
void remove_leftovers(const std::string& path);

}  // namespace capstan

// Defines what can be done with a checkpoint apart from training: looking at it, checking it, and
// making one file of it. All of it in one process; "capstan checkpoint" (capstan.cc) is the
// program.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "distributed/checkpoint/manifest.h"

namespace capstan::distributed {

/// The run, the files and the tensors of a checkpoint, as tables.
std::string to_string(const Manifest& manifest);

/// Called while bytes are read: how many so far, and of how many.
using ReadProgress = std::function<void(int64_t done, int64_t all)>;

/// Reads every byte of the checkpoint in `folder`, and says what is wrong with it, one fault a
/// line; nothing if all is well. Throws IoError if there is no checkpoint or its manifest is
/// damaged.
std::vector<std::string> verify(const std::string& folder, const ReadProgress& progress = {});

/// Writes all tensors of these groups into one safetensors file, atomically, with what is said of
/// the run as its metadata. Holds one tensor at a time in memory. Throws IoError for a checkpoint
/// that is damaged or lacks files, ValueError for a group that it does not have or a name in two
/// groups, and as save_safetensors() does.
void consolidate(const std::string& folder, const std::string& file,
                 const std::vector<std::string>& groups = {"model"},
                 const ReadProgress& progress = {});

}  // namespace capstan::distributed

// Defines Manifest, the table of contents of a checkpoint, and the format of checkpoints.
//
// A checkpoint is a folder:
//
//   latest.json     the manifest: which slot is complete, what lies where in it, and checksums
//   a/, b/          two slots, each with the files that the ranks of one save wrote:
//                   model-00000-of-00004.safetensors, optimizer-00002-of-00004.safetensors, ...
//
// Tensors are logical: they have the names, shapes and dtypes of the whole model, never those of a
// rank's part. A file holds pieces of them. A piece that is all of its tensor is kept under the
// tensor's own name, so that the files of a model which is not cut are ordinary safetensors; any
// other has its region added to its name. The manifest, in JSON:
//
//   "format"   3; readers refuse others
//   "slot"     "a" or "b"
//   "ranks"    how many saved
//   "run"      strings by name: whatever the program that saved wants to know again
//   "files"    by name: "bytes", "sha256"
//   "tensors"  by group ("model", "optimizer", ...) and name: "dtype", "shape", "pieces", each
//              with "file", "key" (its name in the file), and its region: "start" and "shape" of
//              the box, "begin" and "end" of the range (region.h)
//   "manifest_sha256"   of all others, printed without white space in the order of their names
//
// Killed at any moment. A save fills the slot that the manifest does not name: each file is
// written aside, flushed to the disk and renamed. When all ranks have done that, rank 0 replaces
// the manifest in the same way, in one rename. Before it, the manifest names the other slot, which
// nobody has touched; after it, this one, which is complete.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/safetensors.h"
#include "distributed/checkpoint/region.h"

namespace capstan::distributed {

struct Manifest {
  struct File {
    int64_t bytes = 0;
    std::string sha256;
  };
  struct Piece {
    std::string file, key;
    Region region;
  };
  struct Tensor {
    Dtype dtype;
    Shape shape;
    std::vector<Piece> pieces;  // hold each element once
  };
  using Tensors = std::map<std::string, Tensor>;

  std::string slot;
  int ranks = 0;
  Metadata run;
  std::map<std::string, File> files;
  std::map<std::string, Tensors> groups;
};

inline constexpr const char* kManifestFile = "latest.json";

/// Of the slot with the file, and of the manifest.
std::string path_of(const std::string& folder, const Manifest& manifest, const std::string& file);
std::string manifest_path(const std::string& folder);

/// The manifest as JSON, a line a tensor. Throws ValueError for names that are not UTF-8.
std::string to_json(const Manifest& manifest);
/// Trusts nothing: throws IoError, saying what is wrong with the file at `path`, for text that is
/// no manifest, has another format or a wrong checksum, or names files outside its slot or pieces
/// that do not make up their tensors.
Manifest parse_manifest(const std::string& text, const std::string& path);

/// The text of the manifest in `folder`. Throws IoError if there is no checkpoint.
std::string read_manifest_text(const std::string& folder);
/// The manifest in `folder`. Throws as the two do.
Manifest read_manifest(const std::string& folder);

/// The slot that the manifest in `folder` does not name: "a" or "b". No manifest, or one that is
/// none, protects nothing. Throws IoError for one that is there and cannot be read.
std::string free_slot(const std::string& folder);

/// "model-00000-of-00004.safetensors".
std::string file_name(const std::string& group, int rank, int ranks);
/// The name in its file of a piece of the tensor `name`.
std::string key_of(const std::string& name, const Region& region);

}  // namespace capstan::distributed

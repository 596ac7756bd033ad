// Defines plan_save(), which decides what each rank writes: a pure function of what all ranks
// hold, so that all of them come to the same plan without a leader.
//
// A piece that only one rank has is written by it. Copies (the weights of every rank of a Ddp, a
// replicated bias between tensor-parallel slices) are written once: the largest first, each by the
// rank that has the least to write of those that hold it, so that the ranks write about as much as
// one another.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "distributed/checkpoint/manifest.h"
#include "distributed/checkpoint/piece.h"

namespace capstan::distributed {

/// What is saved or loaded, by group: "model", "optimizer", ... Groups are kept in files of their
/// own; names need be unique within one only.
using Groups = std::map<std::string, Pieces>;

/// A piece without its values.
struct Outline {
  std::string group, name;
  Dtype dtype;
  Region region;
};

/// Throws ValueError for a group that is not named with [a-z0-9_]+, for two pieces of one rank with
/// the same name and region, and as check(piece) does.
std::vector<Outline> outlines(const Groups& groups);

/// For other ranks to read.
std::string to_json(const std::vector<Outline>& outlines);
std::vector<Outline> parse_outlines(const std::string& text);

struct SavePlan {
  Manifest manifest;  // without slot, run and checksums; its pieces are in this order of groups
  std::vector<std::vector<size_t>> writes;  // by rank: numbers of its outlines, ascending
};

/// `held` by rank. Throws ValueError, naming tensor and ranks, if ranks differ about a shape or
/// dtype, or do not together hold each element once.
SavePlan plan_save(const std::vector<std::vector<Outline>>& held);

}  // namespace capstan::distributed

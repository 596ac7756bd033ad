// Defines load(), which fills a rank's pieces from a checkpoint, whatever layout saved it.
//
// Each rank reads the elements that it holds and no others: where one of its pieces overlaps a
// saved one, the runs that they share (region.h) are read at their places in the file. Nothing is
// changed before the ranks have agreed that all will be well:
//
//   1. rank 0 reads the manifest, and gives it to the others
//   2. each rank compares it with what it wants, and opens the files that it needs; the ranks
//      tell one another what is wrong
//   3. each file is read by one rank and compared with its checksum; again they tell one another
//   4. each rank reads its elements into place
#pragma once

#include "distributed/checkpoint/plan.h"
#include "distributed/comm/communicator.h"

namespace capstan::distributed {

struct LoadOptions {
  /// Tensors of the wanted groups that the checkpoint has and no rank wants are let be.
  bool allow_extra = false;
};

/// The manifest in rank 0's `folder`, on every rank. A collective: throws SharedError, with one
/// text on every rank, if there is no checkpoint or its manifest is damaged or of another format.
Manifest read_manifest(const std::string& folder, Communicator& communicator);

/// Fills the values of `wanted` from the checkpoint in `folder` with this manifest. Groups that no
/// rank wants are not looked at. A collective: throws SharedError, with one text on every rank that
/// lists all that is wrong, with rank and host where it is wrong on some only: tensors that are
/// missing, that nobody wants, or that have another shape or dtype; files that are missing, damaged
/// or foreign. Also as outlines() does. Nothing is changed then, unless a disk failed to give again
/// what it gave before.
void load(const std::string& folder, const Manifest& manifest, const Groups& wanted,
          Communicator& communicator, const LoadOptions& options = {});

/// Both. Returns what the checkpoint says of its run.
Metadata load(const std::string& folder, const Groups& wanted, Communicator& communicator,
              const LoadOptions& options = {});

}  // namespace capstan::distributed

// Defines Saver, which writes checkpoints while training goes on.
//
// save() copies what this rank is to write, and returns; a thread of its own writes the copy. What
// it asks of the other ranks goes over a communicator of its own, so it does not wait for their
// training and they not for its:
//
//   save()    the ranks tell one another what they hold, and come to one plan (plan.h)
//             rank 0 says which slot is free; what is left in it is removed
//             each rank copies its part                                  from here on training goes
//             on
//   thread    each rank writes its files, and works out their checksums
//             the ranks tell one another checksums, or what went wrong
//             rank 0 writes the manifest
//
// The format, and why a kill at any moment leaves a complete checkpoint: manifest.h. All hosts see
// the folder, or each keeps the files of its own ranks, which have to be brought together before
// they can be loaded.
#pragma once

#include <exception>
#include <memory>
#include <thread>

#include "distributed/checkpoint/plan.h"
#include "distributed/comm/communicator.h"

namespace capstan::distributed {

struct SaverOptions {
  bool background = true;  // false: save() returns when the checkpoint is complete
};

class Saver {
 public:
  /// Makes the folder, if need be. A collective; throws SharedError if a save could not write
  /// there. Every rank passes the same options.
  Saver(std::string folder, Communicator& communicator, SaverOptions options = {});
  /// Waits for the save under way, whose error is lost: call finish() before.
  ~Saver();
  Saver(const Saver&) = delete;

  /// Begins a checkpoint of what all ranks' `groups` hold together, with `run` of rank 0, which
  /// load() gives back. A collective. First waits as finish() does; then throws SharedError on
  /// every rank, with one text, if the pieces are not as outlines() and plan_save() want them or a
  /// folder cannot be written.
  void save(const Groups& groups, const Metadata& run = {});
  /// Waits until the last checkpoint is complete. Throws SharedError on every rank, once, if it is
  /// not: the one before it is still there then.
  void finish();

  /// The files and folders that saves in `folder` replace.
  static std::vector<std::string> paths(const std::string& folder);
  /// Makes the folder and its slots. Throws IoError if this rank could not save there.
  static void prepare(const std::string& folder);

 private:
  struct Job;

  void write(Job job);

  const std::string folder_;
  Communicator& communicator_;
  const SaverOptions options_;
  std::unique_ptr<Communicator> apart_;  // the thread's
  std::thread thread_;
  std::exception_ptr error_;
};

}  // namespace capstan::distributed

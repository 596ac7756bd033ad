// Defines Stream, samples whose number nobody knows, and StreamLoader, which deals them to ranks.
//
// A data set is asked for any sample; a stream only for the next ones: a socket, a pipe, a
// simulation, files too many to list. Every rank reads the same stream and keeps its share of each
// step, so all of them see where it ends, at the same step.
#pragma once

#include <functional>
#include <memory>

#include "data/dataset.h"
#include "data/sampler.h"

namespace capstan::data {

class Stream {
 public:
  virtual ~Stream() = default;
  /// The next `count` samples, fewer only at the end, after which there are none.
  virtual Batch read(int64_t count) = 0;
  /// Goes on as if `count` samples had been read. A stream that can jump should.
  virtual void skip(int64_t count);
};

/// Opens the stream of an epoch. The order of its samples must depend on the epoch alone.
using OpenStream = std::function<std::unique_ptr<Stream>(int64_t epoch)>;

struct StreamOptions {
  int64_t batch = 1;  // samples of a step, over all ranks
  int64_t rank = 0;
  int64_t ranks = 1;
  Tail tail = Tail::exact;  // exact or drop: what would fill a last step is gone by
};

/// One walk over one epoch of a stream.
class StreamEpoch {
 public:
  StreamEpoch(std::unique_ptr<Stream> stream, const StreamOptions& options, int64_t first_step);

  /// Puts this rank's samples of the next step into `out`: every ranks-th, from the rank-th on;
  /// none, if the last step is too small. False at the end. Throws ShapeError if the stream gives
  /// more samples than it was asked for.
  bool next(Batch& out);
  /// Steps of the epoch already taken. With the epoch, all that a checkpoint keeps.
  int64_t step() const { return step_; }

 private:
  std::unique_ptr<Stream> stream_;
  StreamOptions options_;
  int64_t step_;
};

class StreamLoader {
 public:
  /// Throws ValueError for options out of range.
  StreamLoader(OpenStream open, const StreamOptions& options);

  /// This rank's batches of one epoch, from `first_step` on. Throws ValueError for a negative one.
  StreamEpoch epoch(int64_t epoch, int64_t first_step = 0) const;

 private:
  OpenStream open_;
  StreamOptions options_;
};

}  // namespace capstan::data

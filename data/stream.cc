#include "data/stream.h"

#include <algorithm>
#include <vector>

#include "core/raise.h"
#include "data/rows.h"

namespace capstan::data {
namespace {

constexpr int64_t kSkipAtOnce = 1024;

Tensor share_of(const Tensor& rows, std::span<const int64_t> indices) {
  return gather_rows(rows.is_contiguous() ? rows : dense_copy(rows), indices);
}

}  // namespace

void Stream::skip(int64_t count) {
  while (count > 0) {
    const int64_t skipped = read(std::min(count, kSkipAtOnce)).size();
    if (skipped == 0) return;
    count -= skipped;
  }
}

StreamEpoch::StreamEpoch(std::unique_ptr<Stream> stream, const StreamOptions& options,
                         int64_t first_step)
    : stream_(std::move(stream)), options_(options), step_(first_step) {
  if (first_step > 0) stream_->skip(first_step * options_.batch);
}

bool StreamEpoch::next(Batch& out) {
  const Batch all = stream_->read(options_.batch);
  const int64_t count = all.size();
  if (count > options_.batch || all.inputs.size(0) != count) {
    raise<ShapeError>("[StreamEpoch] asked for {} samples, got {} inputs and {} labels",
                      options_.batch, all.inputs.size(0), count);
  }
  if (count == 0 || (count < options_.batch && options_.tail == Tail::drop)) return false;
  std::vector<int64_t> mine;
  for (int64_t i = options_.rank; i < count; i += options_.ranks) mine.push_back(i);
  out = {share_of(all.inputs, mine), share_of(all.labels, mine)};
  ++step_;
  return true;
}

StreamLoader::StreamLoader(OpenStream open, const StreamOptions& options)
    : open_(std::move(open)), options_(options) {
  if (options.batch < 1 || options.ranks < 1 || options.rank < 0 || options.rank >= options.ranks) {
    raise<ValueError>(
        "[StreamLoader] batch and ranks must be 1 or more and rank in [0, ranks), got {}, {} and "
        "{}",
        options.batch, options.ranks, options.rank);
  }
  if (options.tail == Tail::pad) {
    raise<ValueError>(
        "[StreamLoader] a stream's last step cannot be padded with samples gone by; "
        "choose Tail::exact or Tail::drop");
  }
}

StreamEpoch StreamLoader::epoch(int64_t epoch, int64_t first_step) const {
  if (epoch < 0 || first_step < 0) {
    raise<ValueError>("[StreamLoader] epoch and first step must be 0 or more, got {} and {}", epoch,
                      first_step);
  }
  return StreamEpoch(open_(epoch), options_, first_step);
}

}  // namespace capstan::data

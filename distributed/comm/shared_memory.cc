// Implements SharedMemory.
//
// A block is an anonymous file in memory (memfd_create); a rank opens those of the others through
// /proc, by process and file number, and then all of them close it. So no name can clash and
// nothing is left behind, however a process ends. Whether ranks of one host can reach each other's
// memory is not asked but tried (containers may keep them apart): a block begins with a random
// number that only its owner can have told.
#include "distributed/comm/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <random>
#include <string>

#include "distributed/comm/channel.h"
#include "distributed/comm/ring.h"

namespace capstan::distributed {

class SharedMemory::Mapping {
 public:
  static constexpr int64_t kHeader = 64;  // the secret; a cache line, so that the rest is aligned

  /// The whole of a file of `bytes` bytes and the header; null if it cannot be mapped.
  static std::shared_ptr<Mapping> make(int file, int64_t bytes) {
    struct stat status = {};
    if (file < 0 || fstat(file, &status) != 0 || status.st_size != kHeader + bytes) return nullptr;
    void* start = mmap(nullptr, kHeader + bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (start == MAP_FAILED) return nullptr;
    return std::make_shared<Mapping>(static_cast<std::byte*>(start), kHeader + bytes);
  }

  Mapping(std::byte* start, int64_t bytes) : start_(start), bytes_(bytes) {}
  ~Mapping() { munmap(start_, bytes_); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  std::byte* block() const { return start_ + kHeader; }
  uint64_t& secret() const { return *reinterpret_cast<uint64_t*>(start_); }

 private:
  std::byte* start_;
  int64_t bytes_;
};

namespace {

using Mapping = SharedMemory::Mapping;

// What a rank tells the others about its block.
struct Handle {
  int64_t process = 0;
  int64_t file = -1;  // -1: there is none
  uint64_t secret = 0;
};

// A rank's own block, while the others have not opened it yet.
class Offer {
 public:
  explicit Offer(int64_t bytes) : file_(memfd_create("capstan", MFD_CLOEXEC)) {
    const int64_t size = Mapping::kHeader + bytes;
    // The limit of file sizes counts here, too, and going beyond it would be a signal. fallocate
    // takes the memory at once, so that no first use of it fails.
    struct rlimit limit = {};
    if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || static_cast<rlim_t>(size) > limit.rlim_cur) return;
    if (file_ < 0 || fallocate(file_, 0, 0, size) != 0) return;
    block_ = Mapping::make(file_, bytes);
    if (!block_) return;
    std::random_device random;
    handle_ = {getpid(), file_, uint64_t{random()} << 32 | random()};
    block_->secret() = handle_.secret;
    std::lock_guard lock(mutex());
    offers()[handle_.secret] = block_;
  }
  ~Offer() {
    if (file_ >= 0) close(file_);
    std::lock_guard lock(mutex());
    offers().erase(handle_.secret);
  }
  Offer(const Offer&) = delete;
  Offer& operator=(const Offer&) = delete;

  const Handle& handle() const { return handle_; }

  /// The block behind a handle, or null. Ranks that are threads of one process share their mapping
  /// instead of making one each: a race detector then knows one byte by one address.
  static std::shared_ptr<Mapping> open(const Handle& handle, int64_t bytes) {
    if (handle.file < 0) return nullptr;
    {
      std::lock_guard lock(mutex());
      const auto here = offers().find(handle.secret);
      if (here != offers().end()) return here->second;
    }
    const std::string path =
        "/proc/" + std::to_string(handle.process) + "/fd/" + std::to_string(handle.file);
    const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    auto block = Mapping::make(file, bytes);
    if (file >= 0) close(file);
    return block && block->secret() == handle.secret ? block : nullptr;
  }

 private:
  // The offers of this process, by secret.
  static std::map<uint64_t, std::shared_ptr<Mapping>>& offers() {
    static auto& all = *new std::map<uint64_t, std::shared_ptr<Mapping>>;
    return all;
  }
  static std::mutex& mutex() {
    static std::mutex& mutex = *new std::mutex;
    return mutex;
  }

  int file_;
  Handle handle_;
  std::shared_ptr<Mapping> block_;
};

}  // namespace

SharedMemory::SharedMemory(int64_t bytes, std::vector<std::shared_ptr<Mapping>> blocks)
    : bytes_(bytes), blocks_(std::move(blocks)) {}

std::byte* SharedMemory::block(int rank) const { return blocks_[rank]->block(); }

std::shared_ptr<SharedMemory> share_memory(Channel& channel, int64_t bytes) {
  const int n = channel.size(), rank = channel.rank();
  const Offer mine(bytes);
  // Scratch, not a local: after a failure a network may still write to it.
  std::byte* scratch = channel.scratch(n * static_cast<int64_t>(sizeof(Handle)));
  auto* handles = reinterpret_cast<Handle*>(scratch);
  handles[rank] = mine.handle();
  ring_all_gather(channel, Dtype::uint8, handles, even_parts(n * sizeof(Handle), n));
  std::vector<std::shared_ptr<Mapping>> blocks;
  blocks.resize(n);
  bool all_open = true;
  for (int r : channel.here()) {
    blocks[r] = Offer::open(handles[r], bytes);
    all_open = all_open && blocks[r];
  }

  auto* reached = reinterpret_cast<uint8_t*>(scratch);
  reached[rank] = all_open;
  ring_all_gather(channel, Dtype::uint8, reached, even_parts(n, n));
  if (!std::all_of(reached, reached + n, [](uint8_t r) { return r; })) return nullptr;
  return std::make_shared<SharedMemory>(bytes, std::move(blocks));
}

}  // namespace capstan::distributed

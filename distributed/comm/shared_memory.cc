// Implements SharedMemory.
#include "distributed/comm/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <random>
#include <string>

#include "distributed/comm/channel.h"
#include "distributed/comm/ring.h"

namespace capstan::distributed {

/// A block as this process sees it.
class SharedMemory::Mapping {
 public:
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

  std::byte* bytes() const { return start_ + kHeader; }
  uint64_t& secret() const { return *reinterpret_cast<uint64_t*>(start_); }

  static constexpr int64_t kHeader = 64;  // the secret; a cache line, so that the rest is aligned

 private:
  std::byte* start_;
  int64_t bytes_;
};

namespace {

uint64_t random_number() {
  std::random_device random;
  return uint64_t{random()} << 32 | random();
}

// The blocks made in this process. Ranks that are its threads share their mapping instead of making
// one each: a race detector then knows one byte by one address.
template <class Mapping>
struct Registry {
  static Registry& get() {
    static auto& registry = *new Registry;
    return registry;
  }
  std::mutex mutex;
  std::map<uint64_t, std::weak_ptr<Mapping>> by_secret;
};

}  // namespace

SharedMemory::SharedMemory(int64_t bytes) : bytes_(bytes) {
  const int file = memfd_create("capstan", MFD_CLOEXEC);
  if (file < 0) return;
  if (ftruncate(file, Mapping::kHeader + bytes_) == 0) mine_ = Mapping::make(file, bytes_);
  if (!mine_) {
    close(file);
    return;
  }
  handle_ = {getpid(), file, random_number()};
  mine_->secret() = handle_.secret;
  auto& registry = Registry<Mapping>::get();
  std::lock_guard lock(registry.mutex);
  registry.by_secret[handle_.secret] = mine_;
}

SharedMemory::~SharedMemory() {
  if (!mine_) return;
  close(static_cast<int>(handle_.file));
  auto& registry = Registry<Mapping>::get();
  std::lock_guard lock(registry.mutex);
  registry.by_secret.erase(handle_.secret);
}

bool SharedMemory::open(std::span<const Handle> handles) {
  for (const Handle& handle : handles) {
    std::shared_ptr<Mapping> block;
    {
      auto& registry = Registry<Mapping>::get();
      std::lock_guard lock(registry.mutex);
      const auto known = registry.by_secret.find(handle.secret);
      if (known != registry.by_secret.end()) block = known->second.lock();
    }
    if (!block && handle.file >= 0) {
      const std::string path =
          "/proc/" + std::to_string(handle.process) + "/fd/" + std::to_string(handle.file);
      const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
      block = Mapping::make(file, bytes_);
      if (file >= 0) close(file);
    }
    if (!block || block->secret() != handle.secret) return false;
    blocks_.push_back(std::move(block));
  }
  return true;
}

std::byte* SharedMemory::block(int rank) const { return blocks_[rank]->bytes(); }

std::shared_ptr<SharedMemory> share_memory(Channel& channel, int64_t bytes) {
  using Handle = SharedMemory::Handle;
  const int n = channel.size(), rank = channel.rank();
  auto memory = std::make_shared<SharedMemory>(bytes);
  // Scratch, not a local: after a failure a network may still write to it.
  std::byte* scratch = channel.scratch(n * static_cast<int64_t>(sizeof(Handle)));
  auto* handles = reinterpret_cast<Handle*>(scratch);
  handles[rank] = memory->handle();
  ring_all_gather(channel, Dtype::uint8, handles, even_parts(n * sizeof(Handle), n));
  const bool mine = memory->open({handles, static_cast<size_t>(n)});

  auto* reached = reinterpret_cast<uint8_t*>(scratch);
  reached[rank] = mine;
  ring_all_gather(channel, Dtype::uint8, reached, even_parts(n, n));
  return std::all_of(reached, reached + n, [](uint8_t r) { return r; }) ? memory : nullptr;
}

}  // namespace capstan::distributed

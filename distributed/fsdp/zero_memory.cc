#include "distributed/fsdp/zero_memory.h"

#include <algorithm>

#include "core/raise.h"
#include "distributed/fsdp/fsdp.h"

namespace capstan::distributed {

ZeroMemory zero_memory(int64_t parameters, int ranks, int stage, const StateBytes& bytes) {
  if (stage < 0 || stage > 3) raise<ValueError>("[zero_memory] stages are 0 to 3, got {}", stage);
  if (ranks < 1 || parameters < 0 ||
      !(std::min({bytes.weights, bytes.gradients, bytes.optimizer}) >= 0)) {
    raise<ValueError>(
        "[zero_memory] there is a rank or more, and nothing is negative; got {} parameters on {} "
        "ranks, of {}, {} and {} bytes",
        parameters, ranks, bytes.weights, bytes.gradients, bytes.optimizer);
  }
  const auto count = static_cast<double>(parameters);
  const auto share = [&](int from) { return stage >= from ? count / ranks : count; };
  return {share(3) * bytes.weights, share(2) * bytes.gradients, share(1) * bytes.optimizer};
}

int64_t pass_memory(const Fsdp& fsdp, int stage) {
  if (stage < 2) return 0;
  int64_t root = 0, largest = 0, second = 0;
  for (const Unit& unit : fsdp.units()) {
    int64_t bytes = 0;
    for (const auto& flat : unit.flats) bytes += flat->whole().bytes();
    if (unit.name.empty()) {
      root = bytes;
    } else if (bytes >= largest) {
      second = std::exchange(largest, bytes);
    } else {
      second = std::max(second, bytes);
    }
  }
  const int64_t whole = root + largest + second;
  return stage == 3 ? 2 * whole : whole;
}

}  // namespace capstan::distributed

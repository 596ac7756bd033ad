// Implements Communicator but for its collectives (collectives.cc) and agreement (consensus.cc):
// its making, groups of calls, shared memory, splits, and what it leaves behind.
#include "distributed/comm/communicator.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "core/raise.h"
#include "distributed/comm/buffer.h"
#include "distributed/comm/progress.h"
#include "distributed/comm/ring.h"

namespace capstan::distributed {
namespace {

// The calls that a thread is making inside group().
struct Group {
  const Communicator* owner;
  std::vector<Progress::Step> steps;
  std::shared_ptr<Work::State> work;
};
thread_local Group* open_group = nullptr;

bool waits_for_its_result(Kind kind) {
  return kind == Kind::all_gather_strings || kind == Kind::broadcast_string ||
         kind == Kind::split || kind == Kind::share;
}

}  // namespace

std::chrono::milliseconds CommOptions::default_timeout() {
  const char* text = std::getenv("CAPSTAN_TIMEOUT");
  if (!text) return std::chrono::minutes(10);
  char* end = nullptr;
  const double seconds = std::strtod(text, &end);
  if (end == text || *end || !(seconds > 0) || seconds > 1e9) {
    raise<ValueError>("[communicator] CAPSTAN_TIMEOUT is a number of seconds above 0, got '{}'",
                      text);
  }
  return std::chrono::milliseconds(static_cast<int64_t>(std::ceil(seconds * 1000)));
}

std::string CommOptions::default_flight_records() {
  const char* folder = std::getenv("CAPSTAN_FLIGHT_RECORDS");
  return folder ? folder : "";
}

Communicator::Communicator(std::unique_ptr<Transport> transport, CommOptions options)
    : algorithm_(options.all_reduce) {
  if (options.timeout.count() <= 0 || options.grace.count() < 0 || options.ranks_per_host < 0) {
    raise<ValueError>(
        "[communicator] the timeout must be above 0, the grace and ranks_per_host not below it; "
        "got {} ms, {} ms, {}",
        options.timeout.count(), options.grace.count(), options.ranks_per_host);
  }
  progress_ = std::make_shared<Progress>(std::move(transport), options);
}
Communicator::~Communicator() { progress_->stop(); }

int Communicator::rank() const { return progress_->transport().rank(); }
int Communicator::size() const { return progress_->transport().size(); }
int Communicator::local_rank() const { return progress_->transport().local_rank(); }
const std::string& Communicator::host(int rank) const {
  if (rank < 0 || rank >= size()) raise<ValueError>("[host] no rank {} among {}", rank, size());
  return progress_->transport().host(rank);
}

Work Communicator::start(const Call& call, std::function<void(Channel&)> body, bool only_sends) {
  Progress::Step step{call, std::move(body), only_sends};
  if (!open_group || open_group->owner != this) return progress_->start(std::move(step));
  if (waits_for_its_result(call.kind)) {
    raise<ValueError>("[{}] waits for its result, so it cannot be made in a group",
                      to_string(call.kind));
  }
  open_group->steps.push_back(std::move(step));
  return Work(open_group->work);
}

Work Communicator::group(const std::function<void()>& calls) {
  if (open_group) raise<ValueError>("[group] a group cannot be made in a group");
  Group group{this, {}, std::make_shared<Work::State>()};
  group.work->collecting = true;
  open_group = &group;
  const auto close = [&] {
    open_group = nullptr;
    group.work->collecting = false;
  };
  try {
    calls();
    close();
    return group.steps.empty() ? Work() : progress_->start(std::move(group.steps), group.work);
  } catch (...) {
    close();
    group.work->finish("[group] the group was given up");  // for those who kept its Work
    throw;
  }
}

Tensor Communicator::shared_zeros(const Shape& shape, TensorOptions options, std::string_view tag) {
  check_device(Kind::share, options.device);
  const int64_t count = empty(shape, {options.dtype, Device::meta()}).numel();
  const int64_t bytes = count * item_size(options.dtype);
  if (size() == 1) return zeros(shape, options);
  struct State {
    std::shared_ptr<SharedMemory> memory;
    int32_t number;
  };
  auto state = std::make_shared<State>();
  start(Call(Kind::share, tag, options.dtype, count), [state, bytes](Channel& channel) {
    state->number = static_cast<int32_t>(channel.call().sequence);
    if (channel.shares_memory()) state->memory = share_memory(channel, bytes);
    channel.finish();
  }).wait();
  const std::shared_ptr<const SharedMemory> memory = state->memory;
  if (!memory) return zeros(shape, options);
  {
    std::lock_guard lock(mutex_);
    std::erase_if(shared_, [](const Shared& s) { return s.memory.expired(); });
    shared_.push_back({state->number, memory});
  }
  auto storage = make_ref<Storage>(memory->block(rank()), bytes, options.device, [memory] {});
  return tensor_over(std::move(storage), Layout::dense(shape), options.dtype);
}

Communicator::Place Communicator::find_shared(const Tensor& tensor) {
  const auto* address = static_cast<const std::byte*>(tensor.address());
  std::lock_guard lock(mutex_);
  for (const Shared& shared : shared_) {
    const auto memory = shared.memory.lock();
    if (!memory) continue;
    const std::ptrdiff_t offset = address - memory->block(rank());
    if (offset < 0 || offset >= memory->bytes()) continue;
    return {memory, shared.number, offset / item_size(tensor.dtype())};
  }
  return {};
}

std::unique_ptr<Communicator> Communicator::split(int color, int key) {
  struct State {
    std::vector<int32_t> colors, keys;
    std::vector<int64_t> numbers;
    std::unique_ptr<Transport> part;
    int64_t sequence = 0;
  };
  auto state = std::make_shared<State>();
  state->colors.resize(size());
  state->keys.resize(size());
  state->numbers.resize(size());
  state->colors[rank()] = color;
  state->keys[rank()] = key;
  start(Call(Kind::split, {}), [state](Channel& channel) {
    const Parts parts = even_parts(channel.size(), channel.size());
    ring_all_gather(channel, Dtype::int32, state->colors.data(), parts);
    ring_all_gather(channel, Dtype::int32, state->keys.data(), parts);
    state->sequence = channel.call().sequence;
    Transport& transport = channel.transport();
    state->numbers[channel.rank()] = transport.number_of_split(state->sequence);
    ring_all_gather(channel, Dtype::int64, state->numbers.data(), parts);
    state->part = transport.split(state->colors, state->keys, state->numbers[0]);
  }).wait();
  if (!state->part) return nullptr;
  CommOptions part_options = options();
  part_options.all_reduce = algorithm_;
  part_options.name += fmt::format("-{}.{}", state->sequence, color);
  auto part = std::make_unique<Communicator>(std::move(state->part), part_options);
  part->progress_->await_meeting();  // or its ranks would find out in some later call
  return part;
}

std::string Communicator::fail(const std::string& message, bool save_flight_records) {
  return progress_->fail(message, save_flight_records);
}
std::string Communicator::failure() const { return progress_->failure(); }

bool Communicator::leave(const std::string& message,
                         const std::function<void(const std::string&)>& report) {
  return progress_->leave(message, report);
}

Traffic Communicator::traffic() const { return progress_->traffic(); }
const CommOptions& Communicator::options() const { return progress_->options(); }
std::string Communicator::flight_record() const { return progress_->record().text(); }

std::string Communicator::save_flight_record(const std::string& folder,
                                             const std::string& reason) const {
  const std::string& where = folder.empty() ? options().flight_records : folder;
  if (where.empty()) {
    raise<ValueError>(
        "[flight_record] there is no folder to save to: name one, or set CAPSTAN_FLIGHT_RECORDS");
  }
  const RecordOwner owner = progress_->owner();
  const std::string path = FlightRecord::path(where, owner);
  const std::string why = failure();
  FlightRecord::save(path, progress_->record().json(owner, why.empty() ? reason : why));
  return path;
}

}  // namespace capstan::distributed

#include "autograd/anomaly.h"

#include <execinfo.h>

#include <filesystem>

#include "autograd/functions.h"
#include "autograd/node.h"
#include "autograd/reduce.h"
#include "core/raise.h"

namespace capstan {

namespace {

thread_local std::vector<std::string> labels;

/// Suspends watching: the checks are operations too.
class NotWatching {
 public:
  NotWatching() : before_(std::exchange(detail::watching, nullptr)) {}
  ~NotWatching() { detail::watching = before_; }

 private:
  const DetectAnomaly* before_;
};

/// "addr2line -Cfpe <program> <address> ...". An address in a program that is loaded anywhere
/// counts from its start, as backtrace_symbols() writes it: "program(+0x1234) [0x55...]".
std::string addr2line(const std::vector<void*>& frames) {
  const std::unique_ptr<char*, decltype(&std::free)> lines(
      backtrace_symbols(frames.data(), static_cast<int>(frames.size())), std::free);
  std::string program, addresses;
  for (size_t i = 0; lines && i < frames.size(); ++i) {
    const std::string line = lines.get()[i];
    const size_t open = line.find('('), plus = line.find('+', open), close = line.find(')', open);
    if (open == std::string::npos || close == std::string::npos) continue;
    const std::string object = line.substr(0, open);
    if (program.empty()) program = object;
    if (object != program) continue;  // a library: where main() was called from
    // The call is before the place to which it returns.
    const bool relative = plus != std::string::npos && plus < close && plus == open + 1;
    const uint64_t back = relative
                              ? std::stoull(line.substr(plus + 1, close - plus - 1), nullptr, 16)
                              : reinterpret_cast<uint64_t>(frames[i]);
    addresses += fmt::format(" {:#x}", back - 1);
  }
  return "addr2line -Cfpe " + program + addresses;
}

}  // namespace

constinit thread_local const DetectAnomaly* detail::watching = nullptr;

Label::Label(std::string name, std::source_location place) {
  labels.push_back("'" + name + "'");
  if (place.line() == 0) return;
  const std::string file = std::filesystem::path(place.file_name()).filename();
  labels.back() += fmt::format(" ({}:{})", file, place.line());
}
Label::~Label() { labels.pop_back(); }

DetectAnomaly::DetectAnomaly(bool infinities)
    : infinities_(infinities), outer_(std::exchange(detail::watching, this)) {}
DetectAnomaly::~DetectAnomaly() { detail::watching = outer_; }

namespace detail {

std::unique_ptr<const CallSite> current_call_site() {
  auto site = std::make_unique<CallSite>();
  for (const std::string& label : labels) {
    site->labels += (site->labels.empty() ? "" : " > ") + label;
  }
  void* frames[64];
  const int count = backtrace(frames, 64);
  site->frames.assign(frames + 1, frames + count);  // without this function
  return site;
}

std::string to_string(const CallSite* site) {
  if (!site) return "\n  record it inside the DetectAnomaly to see where it was called";
  const std::string in = site->labels.empty() ? "no Label" : site->labels;
  return "\n  it was called in: " + in + "\n  call stack: " + addr2line(site->frames);
}

bool has_anomaly(const Tensor& tensor) {
  if (running_node() || !is_floating(tensor.dtype()) ||
      tensor.device().kind == Device::Kind::meta) {
    return false;
  }
  const bool infinities = watching && watching->infinities();
  NotWatching not_watching;
  NoGrad no_grad;
  return infinities ? !all(isfinite(tensor)).item<bool>() : any(isnan(tensor)).item<bool>();
}

void anomaly_in_result(const char* operation, const Tensor& result) {
  raise<GradientError>("[{}] its result, {} {}, holds {}, though its inputs do not{}", operation,
                       result.dtype(), result.shape(),
                       watching->infinities() ? "NaN or infinities" : "NaN",
                       to_string(current_call_site().get()));
}

}  // namespace detail
}  // namespace capstan

// Implements the transport of a rank without peers.
#include "distributed/comm/self.h"

#include <unistd.h>

#include "distributed/comm/transport.h"

namespace capstan::distributed {
namespace {

class SelfTransport : public Transport {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  const std::string& host(int) const override { return host_; }
  int local_rank() const override { return 0; }

  // There is no peer, so no algorithm gets here.
  void post(int, const void*, int64_t) override {}
  bool receive(int, void*, int64_t, Clock::time_point) override { return true; }
  int flush(Clock::time_point) override { return -1; }
  void abandon() override {}
  void notify(const Notice&) override {}
  std::vector<Notice> notices() override { return {}; }
  bool disturbed() override { return false; }
  void interrupt() override {}

  std::unique_ptr<Transport> split(const std::vector<int>& colors, const std::vector<int>&,
                                   int64_t) override {
    return colors[0] < 0 ? nullptr : std::make_unique<SelfTransport>();
  }

 private:
  std::string host_ = host_name();
};

}  // namespace

std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "localhost";
}

std::unique_ptr<Communicator> make_self(CommOptions options) {
  return std::make_unique<Communicator>(std::make_unique<SelfTransport>(), options);
}

}  // namespace capstan::distributed

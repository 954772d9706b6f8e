#include "backends/hosts/hosts_backend.h"

#include <exception>

#include "backends/hosts/hosts_collectives.h"

namespace distrun::hosts {

void HostsGroup::run(const shm::CallLimit& limit, Call call) {
  const auto deadline = limit.deadline();
  try {
    host_->run_on_host(deadline, [&](shm::HostCollectives& host, shm::Watch& watch) {
      watch.waits();  // Time that the network takes counts, too.
      NewsWatch watch_all(watch, between_);
      HostsCollectives all(map_, host, between_, deadline);
      call(all, watch_all);
    });
  } catch (const std::exception& error) {
    between_.publish_failure(text_of(error));
    throw;
  } catch (...) {
    between_.publish_failure("an exception without a text");
    throw;
  }
}

void HostsGroup::abort() {
  host_->abort();
  between_.abort();
}

void HostsBackend::setTimeout(std::chrono::milliseconds timeout) {
  ShmBackend::setTimeout(timeout);
  gloo().setTimeout(timeout);
}

HostsBackend::WorkPtr HostsBackend::send(Tensors& tensors, int to, int tag) {
  return gloo().send(tensors, to, tag);
}

HostsBackend::WorkPtr HostsBackend::recv(Tensors& tensors, int from, int tag) {
  return gloo().recv(tensors, from, tag);
}

HostsBackend::WorkPtr HostsBackend::recvAnysource(Tensors& tensors, int tag) {
  return gloo().recvAnysource(tensors, tag);
}

// In turn with other calls: those that use Gloo must do so in the same order on all ranks.
void HostsBackend::monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) {
  const Call call = {"monitored_barrier", c10d::OpType::BARRIER, "shm:monitored_barrier", timeout(),
                     false};
  const bool is_timed = options.timeout > std::chrono::milliseconds(0);
  const auto limit = is_timed ? options.timeout : timeout();
  begin(call, {},
        [&between = group_->between(), wait_all_ranks, limit](auto& /*group*/, auto& /*watch*/) {
          between.monitored_barrier(limit, wait_all_ranks);
        })
      ->wait();
}

}  // namespace distrun::hosts

// The backend shm for ranks on several hosts. Collectives are those of HostsCollectives; messages
// pass through Gloo.
//
// Errors: as of shm::ShmBackend. After a failure, other hosts fail with the reason that the first
// rank gave. Thread safety: any thread.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "backends/hosts/between_hosts.h"
#include "backends/hosts/host_map.h"
#include "backends/shm/host/host_group.h"
#include "backends/shm/shm_backend.h"
#include "distrun/backend_registry.h"

namespace distrun::hosts {

class HostsGroup : public shm::RankGroup {
 public:
  HostsGroup(HostMap map, std::shared_ptr<shm::HostGroup> host, BetweenHosts::Parts parts)
      : map_(std::move(map)), host_(std::move(host)), between_(std::move(parts)) {}

  void run(const shm::CallLimit& limit, Call call) override;
  void abort() override;

  // Of this rank's host.
  shm::SharedBlocks& blocks() override { return host_->blocks(); }
  BetweenHosts& between() { return between_; }

 private:
  const HostMap map_;
  const std::shared_ptr<shm::HostGroup> host_;
  BetweenHosts between_;
};

class HostsBackend : public shm::ShmBackend {
 public:
  // `make_part` makes the backends that are split from this one.
  HostsBackend(int rank, int size, c10::intrusive_ptr<Options> options,
               const std::shared_ptr<HostsGroup>& group, BackendMaker make_part)
      : ShmBackend(rank, size, std::move(options), group),
        group_(group),
        make_part_(std::move(make_part)) {}

  void setTimeout(std::chrono::milliseconds timeout) override;
  WorkPtr send(Tensors& tensors, int to, int tag) override;
  WorkPtr recv(Tensors& tensors, int from, int tag) override;
  WorkPtr recvAnysource(Tensors& tensors, int tag) override;
  void monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) override;

  // Of all ranks.
  c10d::Backend& gloo() const { return group_->between().all(); }

 private:
  c10::intrusive_ptr<Backend> make(const BackendRequest& request) const override {
    return make_part_(request);
  }

  const std::shared_ptr<HostsGroup> group_;
  const BackendMaker make_part_;
};

}  // namespace distrun::hosts

// The backend shm for Python (packaging/python/distrun/shm), as operators.
//
//     ops = torch.ops.distrun_shm
//     meeting = ops.meet(group.boxed(), ranks, timeout_ms, name, has_gloo)
//     for part, its_ranks in zip(ops.gloo_groups(meeting), ops.gloo_ranks(meeting)):
//         …                             # Give it a backend of Gloo at ops.gloo_address(meeting).
//     ops.set_backend(meeting)          # Of `group`.
//
//     ops.share(tensor, group.boxed())  # It is then reduced in place.
//
// Only ranks on several hosts have parts.
//
// A library of operators needs no headers of Python, and works with each version of Python.
// libdistrun does not contain this file.
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/custom_class.h>
#include <torch/library.h>

#include "backends/gloo/gloo_address.h"
#include "backends/group/shared_tensors.h"
#include "backends/hosts/gloo_connections.h"
#include "backends/hosts/hosts_meeting.h"
#include "backends/shm/shm.h"

namespace distrun::hosts {

namespace {

using internal::CanSpanHosts;
using internal::ShmMeeting;
using GroupPtr = c10::intrusive_ptr<c10d::ProcessGroup>;

constexpr auto kCpu = c10::DeviceType::CPU;

// Only C++ makes backends of Gloo without Python's help.
c10::intrusive_ptr<c10d::Backend> make_part_on_one_host(const BackendRequest& request) {
  ShmMeeting meeting = ShmMeeting::hold(request, CanSpanHosts::kNo);
  TORCH_CHECK_WITH(DistBackendError, meeting.is_on_one_host(),
                   "shm: Python cannot split a group into parts that span hosts; use new_group()");
  return internal::make_one_host_backend(request, meeting);
}

}  // namespace

// The ranks of a group that Python is making.
class PythonMeeting : public torch::CustomClassHolder {
 public:
  PythonMeeting(GroupPtr group, BackendRequest request, ShmMeeting meeting)
      : group_(std::move(group)), request_(std::move(request)) {
    if (meeting.is_on_one_host()) {
      on_one_host_.emplace(std::move(meeting));
      return;
    }
    if (!meeting.all_can_span_hosts()) meeting.refuse();
    on_hosts_.emplace(request_, std::move(meeting));
    on_hosts_->join_host();
    if (on_hosts_->is_leader()) add_group(on_hosts_->leaders());
    add_group(on_hosts_->all());
  }

  // In the order in which all ranks make their backends.
  const std::vector<GroupPtr>& gloo_groups() const { return groups_; }
  // The global ranks of each.
  const std::vector<std::vector<std::int64_t>>& gloo_ranks() const { return ranks_; }
  std::string gloo_address() const { return internal::gloo_address(request_.store).value_or(""); }
  // Call it once, after each of gloo_groups() has its backend.
  void set_backend() {
    group_->setBackend(kCpu, c10d::ProcessGroup::BackendType::CUSTOM, make_backend());
  }

 private:
  c10::intrusive_ptr<c10d::Backend> make_backend() {
    if (on_one_host_) return internal::make_one_host_backend(request_, *on_one_host_);
    auto leaders = on_hosts_->is_leader() ? groups_.front()->getBackend(kCpu) : nullptr;
    return on_hosts_->finish(std::move(leaders), groups_.back()->getBackend(kCpu),
                             {.close = close_connections, .lost_peer = lost_peer},
                             make_part_on_one_host);
  }
  // Without a backend.
  void add_group(const BackendRequest& request) {
    groups_.push_back(
        c10::make_intrusive<c10d::ProcessGroup>(request.store, request.rank, request.size));
    ranks_.emplace_back(request.ranks.begin(), request.ranks.end());
  }

  const GroupPtr group_;
  const BackendRequest request_;
  std::optional<ShmMeeting> on_one_host_;
  std::optional<HostsMeeting> on_hosts_;
  std::vector<GroupPtr> groups_;
  std::vector<std::vector<std::int64_t>> ranks_;
};

namespace {

using MeetingPtr = c10::intrusive_ptr<PythonMeeting>;

// `group` has the store and the size. `ranks` are the global ranks of the group.
MeetingPtr meet(const GroupPtr& group, const std::vector<std::int64_t>& ranks,
                std::int64_t timeout_ms, const std::string& name, bool has_gloo) {
  BackendRequest request{.store = group->getStore(),
                         .rank = group->getRank(),
                         .size = group->getSize(),
                         .timeout = std::chrono::milliseconds(timeout_ms),
                         .group_name = name};
  request.ranks.assign(ranks.begin(), ranks.end());
  auto meeting = ShmMeeting::hold(request, has_gloo ? CanSpanHosts::kYes : CanSpanHosts::kNo);
  return c10::make_intrusive<PythonMeeting>(group, std::move(request), std::move(meeting));
}

std::vector<GroupPtr> gloo_groups(const MeetingPtr& meeting) { return meeting->gloo_groups(); }
std::vector<std::vector<std::int64_t>> gloo_ranks(const MeetingPtr& meeting) {
  return meeting->gloo_ranks();
}
std::string gloo_address(const MeetingPtr& meeting) { return meeting->gloo_address(); }
void set_backend(const MeetingPtr& meeting) { meeting->set_backend(); }

// No call may use the tensor meanwhile.
void share(const at::Tensor& tensor, const GroupPtr& group) {
  internal::share_with_group(tensor, *group);
}

}  // namespace

TORCH_LIBRARY(distrun_shm, library) {
  library.class_<PythonMeeting>("Meeting");
  library.def("meet", meet);
  library.def("gloo_groups", gloo_groups);
  library.def("gloo_ranks", gloo_ranks);
  library.def("gloo_address", gloo_address);
  library.def("set_backend", set_backend);
  library.def("share", share);
}

}  // namespace distrun::hosts

// The backend shm for Python (packaging/python/distrun/shm), as operators.
//
//     meeting = torch.ops.distrun_shm.meet(group.boxed(), ranks, timeout_ms, name, has_gloo)
//     for each of torch.ops.distrun_shm.gloo_groups(meeting):   # If the ranks are on several
//     hosts.
//         give it a backend of Gloo, which listens at torch.ops.distrun_shm.gloo_address(meeting)
//     torch.ops.distrun_shm.set_backend(meeting)                # Of `group`.
//
//     torch.ops.distrun_shm.share(tensor, group.boxed())        # It is then reduced in place.
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
#include "backends/hosts/hosts_meeting.h"
#include "backends/shm/shm.h"

namespace distrun::hosts {

namespace {

using internal::CanSpanHosts;
using internal::ShmMeeting;
using GroupPtr = c10::intrusive_ptr<c10d::ProcessGroup>;

constexpr auto kCpu = c10::DeviceType::CPU;

// A group without a backend.
GroupPtr group_of(const BackendRequest& request) {
  return c10::make_intrusive<c10d::ProcessGroup>(request.store, request.rank, request.size);
}

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
    if (on_hosts_->is_leader()) leaders_ = group_of(on_hosts_->leaders());
    all_ = group_of(on_hosts_->all());
  }

  // In the order in which all ranks make their backends.
  std::vector<GroupPtr> gloo_groups() const {
    std::vector<GroupPtr> groups;
    for (const GroupPtr& each : {leaders_, all_}) {
      if (each) groups.push_back(each);
    }
    return groups;
  }
  std::string gloo_address() const { return internal::gloo_address(request_.store).value_or(""); }
  // Once.
  void set_backend() {
    group_->setBackend(kCpu, c10d::ProcessGroup::BackendType::CUSTOM, make_backend());
  }

 private:
  c10::intrusive_ptr<c10d::Backend> make_backend() {
    if (on_one_host_) return internal::make_one_host_backend(request_, *on_one_host_);
    auto leaders = leaders_ ? leaders_->getBackend(kCpu) : nullptr;
    return on_hosts_->finish(std::move(leaders), all_->getBackend(kCpu), make_part_on_one_host);
  }

  const GroupPtr group_;
  const BackendRequest request_;
  std::optional<ShmMeeting> on_one_host_;
  std::optional<HostsMeeting> on_hosts_;
  GroupPtr leaders_, all_;
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
  library.def("gloo_address", gloo_address);
  library.def("set_backend", set_backend);
  library.def("share", share);
}

}  // namespace distrun::hosts

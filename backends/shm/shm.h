// Makes the backend shm for a group.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "backends/shm/host/host_group.h"
#include "backends/shm/host/host_meeting.h"
#include "distrun/backend_registry.h"

namespace distrun::internal {

enum class CanSpanHosts : bool { kNo, kYes };

// The ranks of a group have told each other where they are.
//
//     ShmMeeting meeting = ShmMeeting::hold(request, CanSpanHosts::kNo);
//     if (meeting.is_on_one_host()) auto group = meeting.join();
//
// Errors: c10::DistBackendError, which names the ranks that do not come.
class ShmMeeting {
 public:
  // Blocks until all ranks have come. All ranks learn what each says of `can_span_hosts`.
  static ShmMeeting hold(const BackendRequest& request, CanSpanHosts can_span_hosts);

  bool is_on_one_host() const { return elsewhere_.empty(); }
  // By rank: equal texts are one host.
  const std::vector<std::string>& hosts() const { return hosts_; }
  bool all_can_span_hosts() const { return all_can_span_hosts_; }
  // A text that no other meeting has, the same on all ranks.
  const std::string& name() const { return name_; }
  // Throws the error that names the ranks on other hosts.
  [[noreturn]] void refuse() const;

  // Maps the memory of all ranks, which must be on one host and do the same. Takes this rank's keys
  // from the store, so that a later group can use it.
  std::shared_ptr<shm::HostGroup> join();
  // For ranks on several hosts: takes this rank's keys from the store. Returns when all ranks have
  // done so. `backend` connects the same ranks.
  void leave_together(c10d::Backend& backend);

 private:
  void leave();

  ShmMeeting(BackendRequest request, std::chrono::steady_clock::time_point deadline,
             shm::HostMeeting meeting, std::vector<std::string> cards);

  BackendRequest request_;
  std::chrono::steady_clock::time_point deadline_;
  shm::HostMeeting meeting_;
  std::vector<std::string> cards_;
  std::vector<std::string> hosts_;
  std::vector<int> elsewhere_;  // Global ranks.
  bool all_can_span_hosts_ = false;
  std::string name_;
};

// Throws c10::DistBackendError if the ranks are not on one host, or do not come.
c10::intrusive_ptr<c10d::Backend> make_one_host_backend(const BackendRequest& request);
// Of a meeting on one host.
c10::intrusive_ptr<c10d::Backend> make_one_host_backend(const BackendRequest& request,
                                                        ShmMeeting& meeting);
// What getBackendOptions() of the backend returns.
c10::intrusive_ptr<c10d::Backend::Options> shm_options(const BackendRequest& request);

}  // namespace distrun::internal

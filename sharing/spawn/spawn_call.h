// What a fresh process is to do, and the packets by which it is told: one with the size of it all
// and the lifeline, then bytes and descriptors in as many as it takes.  What is the same for all
// processes is packed once, queues for each: every process is a holder of its own.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "distrun/spawn_function.h"
#include "sharing/memory/tensor_fields.h"
#include "sharing/spawn/process_set.h"
#include "sharing/spawn/started_process.h"

namespace distrun::internal {

struct SpawnCall {
  std::string function;
  int index = 0;
  SpawnArguments arguments;
};

// For all processes of one call.  Shares the tensors, and holds the queues as long as it lives.
class PackedCall {
 public:
  PackedCall(const std::string& function, const SpawnArguments& arguments);

  // To a process of `set`.  Waits where the process has to read what is under way, and returns when
  // all is, or one of the set has failed, or the time is over.  Gives up the process's end of the
  // lifeline.  Throws c10::Error where the kernel has no room for more descriptors for some
  // seconds.
  void send_to(StartedProcess& process, ProcessSet& set, ProcessSet::Clock::time_point until) const;

 private:
  std::string bytes_;  // Without the queues.
  std::vector<SharedTensor> tensors_;
  std::vector<TensorQueue> queues_;
  MessageDescriptors descriptors_;  // Of the tensors.
};

// In the process.
struct ReceivedCall {
  int index = 0;
  UniqueFd lifeline;
  std::string bytes;  // With the queues at their end.
  std::size_t queue_bytes = 0;
  std::vector<UniqueFd> descriptors;

  // Takes the descriptors.  Throws c10::ValueError for what is no call.
  SpawnCall unpack();
};

// Nothing where the parent is gone, or has given up.  Throws c10::Error where there is no room for
// the descriptors, c10::ValueError for what is no call.
std::optional<ReceivedCall> receive_call(int control);

}  // namespace distrun::internal

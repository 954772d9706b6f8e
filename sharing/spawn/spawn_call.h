// The call of a fresh process, as packets: one with all sizes and the lifeline, then as many as
// needed with bytes and descriptors. Everything but queues is packed once for all processes; each
// process is a separate holder of the queues.
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

// The call for all processes of one spawn(). Shares the tensors; holds the queues while it lives.
class PackedCall {
 public:
  PackedCall(const std::string& function, const SpawnArguments& arguments);

  // Sends the call to a process of `set`. Blocks while the process must read, until all is sent, a
  // process of the set has failed, or the time is over. Gives up the worker's end of the lifeline.
  // Throws c10::Error if too many descriptors are in flight for some seconds.
  void send_to(StartedProcess& process, ProcessSet& set, ProcessSet::Clock::time_point until) const;

 private:
  std::string bytes_;  // Without the queues.
  std::vector<SharedTensor> tensors_;
  std::vector<TensorQueue> queues_;
  MessageDescriptors descriptors_;  // Of the tensors.
};

// The call as the process receives it.
struct ReceivedCall {
  int index = 0;
  UniqueFd lifeline;
  std::string bytes;  // The queues are last.
  std::size_t queue_bytes = 0;
  std::vector<UniqueFd> descriptors;

  // Takes the descriptors.  Throws c10::ValueError if the bytes are malformed.
  SpawnCall unpack();
};

// Empty if the parent is gone or has given up. Throws c10::Error if there is no room for the
// descriptors, c10::ValueError if the packets are malformed.
std::optional<ReceivedCall> receive_call(int control);

}  // namespace distrun::internal

// What a fresh process is to do, and the packets by which it is told: one with the size of it all
// and the lifeline, then bytes and descriptors in as many as it takes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sharing/hand_over.h"
#include "sharing/spawn_function.h"
#include "sharing/spawned_process.h"

namespace distrun::internal {

struct SpawnCall {
  std::string function;
  int index = 0;
  SpawnArguments arguments;
};

// The same for all processes of one call, but for the index.  Shares the tensors.
class PackedCall {
 public:
  PackedCall(const std::string& function, const SpawnArguments& arguments);

  // Waits where the process has to read what is under way, and returns when all is; it may have
  // ended by then.  Gives up the process's end of the lifeline.
  void send_to(SpawnedProcess& process) const;

 private:
  std::string bytes_;
  std::vector<SharedTensor> tensors_;
  std::vector<TensorQueue> queues_;
  Descriptors descriptors_;
};

// In the process.
struct ReceivedCall {
  int index = 0;
  UniqueFd lifeline;
  std::string bytes;
  std::vector<UniqueFd> descriptors;

  // Takes the descriptors.  Throws c10::ValueError for what is no call.
  SpawnCall unpack();
};

// Nothing where the parent is gone, or has given up.  Throws c10::Error where there is no room for
// the descriptors.
std::optional<ReceivedCall> receive_call(int control);

}  // namespace distrun::internal

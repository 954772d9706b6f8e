// Tensors for another process, as fields of a message and the descriptors that accompany it.
//
//     MessageDescriptors descriptors;
//     nlohmann::json fields = hand_over(tensors, descriptors);
//     … send fields and descriptors.all, in this order, in as many packets as it takes …
//
//     std::vector<UniqueFd> descriptors = …;          // All of them, in the same order.
//     auto tensors = taken_over(fields, descriptors);
//
// Fields refer to descriptors by index.  They require the same build and machine, may be encoded as
// JSON, CBOR or MessagePack, and may share a message with queues (sharing/queue/queue_fields.h).
//
// A message in flight keeps its memory alive: its descriptors are in a socket.
//
// Errors: c10::ValueError for fields or descriptors that hand_over() does not create.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>
#include <nlohmann/json_fwd.hpp>

#include "common/os/unique_fd.h"

namespace distrun::internal {

struct MessageDescriptors {
  // Mostly owned by tensors and queues: keep these alive until all are sent.
  std::vector<int> all;
  // Created for this message: keep them alive until all are sent.
  std::vector<UniqueFd> owned;
};

// A tensor that can be handed over: its storage is shared memory.
class SharedTensor {
 public:
  // Shares the tensor in place. Throws like share_memory_(), and c10::ValueError if the tensor
  // requires a gradient and is not a leaf.
  explicit SharedTensor(const at::Tensor& tensor);

  const at::Tensor& tensor() const { return tensor_; }

 private:
  at::Tensor tensor_;
};

// Tensors of one storage use one descriptor, and share one storage again after taken_over().
nlohmann::json hand_over(const std::vector<SharedTensor>& tensors, MessageDescriptors& descriptors);

// Takes the descriptors that it uses, and leaves these empty.
std::vector<at::Tensor> taken_over(const nlohmann::json& fields,
                                   std::vector<UniqueFd>& descriptors);

}  // namespace distrun::internal

// Tensors that are handed over to another process, as fields of a message and the descriptors that
// go with it.
//
//     MessageDescriptors descriptors;
//     nlohmann::json fields = hand_over(tensors, descriptors);
//     … send fields and descriptors.all, in this order, in as many packets as it takes …
//
//     std::vector<UniqueFd> descriptors = …;          // All of them, in the same order.
//     auto tensors = taken_over(fields, descriptors);
//
// Fields refer to descriptors by their index.  They are for a process of the same build on the same
// machine, and may be written as JSON, CBOR or MessagePack.  Fields of queues
// (sharing/queue/queue_fields.h) may be in the same message.
//
// A message under way keeps its memory: it lives as long as the descriptors are in a socket.
//
// Errors: c10::ValueError for fields or descriptors that are not what hand_over() makes.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>
#include <nlohmann/json_fwd.hpp>

#include "common/os/unique_fd.h"

namespace distrun::internal {

struct MessageDescriptors {
  // Those of tensors and queues stay theirs: let these live until all are sent.
  std::vector<int> all;
  // Those among them that were made for this message: let them live as long.
  std::vector<UniqueFd> owned;
};

// A tensor that can be handed over: its storage is shared memory.
class SharedTensor {
 public:
  // Shares it in place, as share_memory_() does, and throws what that throws; c10::ValueError, too,
  // if the tensor requires a gradient and is not a leaf.
  explicit SharedTensor(const at::Tensor& tensor);

  const at::Tensor& tensor() const { return tensor_; }

 private:
  at::Tensor tensor_;
};

// Tensors of one storage go with one descriptor, and share a storage again where they are taken
// over.
nlohmann::json hand_over(const std::vector<SharedTensor>& tensors, MessageDescriptors& descriptors);

// Takes the descriptors that it uses: they are empty afterwards.
std::vector<at::Tensor> taken_over(const nlohmann::json& fields,
                                   std::vector<UniqueFd>& descriptors);

}  // namespace distrun::internal

// A queue for another process, as fields of a message and descriptors: see
// sharing/memory/tensor_fields.h.
//
//     nlohmann::json fields = {{"tensors", hand_over(tensors, descriptors)},
//                              {"queue", hand_over(queue, descriptors)}};
//
//     auto queue = taken_over_queue(fields.at("queue"), descriptors);
//
// A message in flight holds the queue: it does not end while its descriptors are in a socket.
#pragma once

#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "common/os/unique_fd.h"
#include "distrun/tensor_queue.h"
#include "sharing/memory/tensor_fields.h"

namespace distrun::internal {

nlohmann::json hand_over(const TensorQueue& queue, MessageDescriptors& descriptors);

// Takes the descriptors that it uses, and leaves these empty. Throws c10::ValueError for fields
// that hand_over() does not create.
TensorQueue taken_over_queue(const nlohmann::json& fields, std::vector<UniqueFd>& descriptors);

}  // namespace distrun::internal

// A queue that is handed over to another process, as fields of a message and the descriptors that
// go with it: see sharing/memory/tensor_fields.h.
//
//     nlohmann::json fields = {{"tensors", hand_over(tensors, descriptors)},
//                              {"queue", hand_over(queue, descriptors)}};
//
//     auto queue = taken_over_queue(fields.at("queue"), descriptors);
//
// A message under way holds the queue: it has not ended as long as the descriptors are in a socket.
#pragma once

#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "common/os/unique_fd.h"
#include "distrun/tensor_queue.h"
#include "sharing/memory/tensor_fields.h"

namespace distrun::internal {

nlohmann::json hand_over(const TensorQueue& queue, MessageDescriptors& descriptors);

// Takes the descriptors that it uses: they are empty afterwards.  Throws c10::ValueError for what
// hand_over() does not make.
TensorQueue taken_over_queue(const nlohmann::json& fields, std::vector<UniqueFd>& descriptors);

}  // namespace distrun::internal

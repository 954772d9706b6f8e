#include "sharing/queue/queue_fields.h"

#include <utility>

#include <c10/util/Exception.h>
#include <nlohmann/json.hpp>

#include "sharing/memory/number_field.h"
#include "sharing/queue/queue_holder.h"

namespace distrun::internal {

nlohmann::json hand_over(const TensorQueue& queue, MessageDescriptors& descriptors) {
  const QueueHolder::Parts& parts = TensorQueueAccess::holder(queue).parts();
  HolderPresence presence = TensorQueueAccess::holder(queue).presence_for_another();
  const auto first = descriptors.all.size();
  for (const int fd :
       {parts.sender.get(), parts.receiver.get(), parts.places.get(), presence.descriptor()}) {
    descriptors.all.push_back(fd);
  }
  const HolderPresence::Places places = presence.places();
  descriptors.owned.push_back(presence.release());
  return {{"name", parts.name},
          {"capacity", parts.capacity},
          {"descriptors", first},
          {"put", places.put},
          {"get", places.get}};
}

TensorQueue taken_over_queue(const nlohmann::json& fields, std::vector<UniqueFd>& descriptors) {
  try {
    const auto first = number_field<std::size_t>(fields.at("descriptors"));
    TORCH_CHECK_VALUE(first < descriptors.size() && descriptors.size() - first >= 4,
                      "take a queue over: ", descriptors.size(), " descriptors are too few");
    const HolderPresence::Places places{.put = number_field<int>(fields.at("put")),
                                        .get = number_field<int>(fields.at("get"))};
    return TensorQueueAccess::make(QueueHolder::taken_over(
        {.name = fields.at("name").get<std::string>(),
         .capacity = number_field<std::size_t>(fields.at("capacity")),
         .sender = std::move(descriptors[first]),
         .receiver = std::move(descriptors[first + 1]),
         .places = std::move(descriptors[first + 2]),
         .presence = HolderPresence::taken_over(std::move(descriptors[first + 3]), places)}));
  } catch (const nlohmann::json::exception& error) {
    TORCH_CHECK_VALUE(false, "take a queue over: the message is malformed: ", error.what());
  }
}

}  // namespace distrun::internal

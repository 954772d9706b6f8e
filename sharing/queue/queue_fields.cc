#include "sharing/queue/queue_fields.h"

#include <utility>

#include <c10/util/Exception.h>
#include <nlohmann/json.hpp>

#include "sharing/queue/queue_holder.h"

namespace distrun::internal {

nlohmann::json hand_over(const TensorQueue& queue, MessageDescriptors& descriptors) {
  const QueueHolder::Parts& parts = queue.holder().parts();
  HolderPresence presence = queue.holder().presence_for_another();
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
    const auto first = fields.at("descriptors").get<std::size_t>();
    TORCH_CHECK_VALUE(first < descriptors.size() && descriptors.size() - first >= 4,
                      "take a queue over: ", descriptors.size(), " descriptors are too few");
    const HolderPresence::Places places{.put = fields.at("put").get<int>(),
                                        .get = fields.at("get").get<int>()};
    return TensorQueue(QueueHolder::taken_over(
        {.name = fields.at("name").get<std::string>(),
         .capacity = fields.at("capacity").get<std::size_t>(),
         .sender = std::move(descriptors[first]),
         .receiver = std::move(descriptors[first + 1]),
         .places = std::move(descriptors[first + 2]),
         .presence = HolderPresence::taken_over(std::move(descriptors[first + 3]), places)}));
  } catch (const nlohmann::json::exception& error) {
    TORCH_CHECK_VALUE(false, "take a queue over: the message is malformed: ", error.what());
  }
}

}  // namespace distrun::internal

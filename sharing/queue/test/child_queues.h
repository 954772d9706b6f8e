// Queues for the processes of sharing/memory/test/child_process.h.
//
//     send_to(child.socket(), queue);                           // Child: receive_queue(socket)
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "common/os/packet_socket.h"
#include "sharing/memory/test/child_process.h"
#include "sharing/queue/queue_fields.h"

namespace distrun::testing {

inline TensorQueue receive_queue(int socket) {
  auto packet = receive_packet(socket).value();
  return internal::taken_over_queue(nlohmann::json::parse(packet.bytes), packet.descriptors);
}

inline void send_to(int socket, const TensorQueue& queue) {
  internal::MessageDescriptors descriptors;
  const std::string fields = internal::hand_over(queue, descriptors).dump();
  send_packet(socket, fields, descriptors.all).value();
}

}  // namespace distrun::testing

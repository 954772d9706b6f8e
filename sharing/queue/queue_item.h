// An item of a queue as one packet.
//
//     PackedItem packed = pack(item);
//     send_packet(socket, packed.bytes, packed.descriptors.all);
//     TensorQueue::Item same = unpack(receive_packet(socket).value());
//
// The packet is CBOR, which may be followed by zeros:
//
//     {"tensors": hand_over()'s fields, "text": bytes}
//
// Where that is more than kItemPacketBytes it is in a memfd, and descriptors that are more than a
// packet takes are in a socket of their own, by sixty-four:
//
//     {"content": descriptor, "more": descriptor or -1}
#pragma once

#include <string>
#include <vector>

#include "common/os/packet_socket.h"
#include "distrun/tensor_queue.h"
#include "sharing/memory/tensor_fields.h"

namespace distrun::internal {

struct PackedItem {
  std::vector<SharedTensor> tensors;
  MessageDescriptors descriptors;
  std::string bytes;
};

// Throws what SharedTensor does, and c10::Error where the kernel has no room.
PackedItem pack(const TensorQueue::Item& item);

// Throws c10::ValueError for what pack() does not make.
TensorQueue::Item unpack(Packet packet);

}  // namespace distrun::internal

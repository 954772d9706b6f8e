// One item of a queue as a packet.
//
//     PackedItem packed = pack(item);
//     send_packet(socket, packed.bytes, packed.descriptors.all);
//     TensorQueue::Item same = unpack(receive_packet(socket).value());
//
// The packet is CBOR, followed by any number of zeros:
//
//     {"tensors": hand_over()'s fields, "text": bytes}
//
// Content above kItemPacketBytes is in a memfd; descriptors that do not fit into a packet are in a
// socket, up to 64 in each of its packets:
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

// Throws like SharedTensor, and c10::Error if memory or descriptors run out.
PackedItem pack(const TensorQueue::Item& item);

// Throws c10::ValueError for packets that pack() does not create.
TensorQueue::Item unpack(Packet packet);

}  // namespace distrun::internal

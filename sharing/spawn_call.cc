#include "sharing/spawn_call.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <iterator>
#include <utility>

#include <c10/util/Exception.h>
#include <nlohmann/json.hpp>
#include <poll.h>

#include "common/packet_socket.h"

namespace distrun::internal {

namespace {

using Json = nlohmann::json;

constexpr std::size_t kSliceBytes = std::size_t{64} * 1024;

// False where the process has ended.
bool wait_for_room(const SpawnedProcess& process, bool is_users) {
  pollfd waits[] = {{process.pidfd.get(), POLLIN, 0}, {process.control.get(), POLLOUT, 0}};
  // Whatever other processes of the user have under way counts too, and nothing tells when there is
  // less of it.
  const int changed = is_users ? ::poll(waits, 1, 1) : ::poll(waits, 2, -1);
  return changed <= 0 || waits[0].revents == 0;
}

bool send(const SpawnedProcess& process, const std::string& bytes,
          const std::vector<int>& descriptors) {
  for (;;) {
    const auto sent = send_packet(process.control.get(), bytes, descriptors);
    const bool are_too_many = errno == ETOOMANYREFS;
    if (sent) return true;
    const ErrorKind kind = sent.error().kind;
    if (kind == ErrorKind::kNotFound) return false;
    TORCH_CHECK(kind == ErrorKind::kTimedOut || are_too_many, "hand over arguments to process ",
                process.index, ": ", sent.error().message);
    if (!wait_for_room(process, kind != ErrorKind::kTimedOut)) return false;
  }
}

}  // namespace

PackedCall::PackedCall(const std::string& function, const SpawnArguments& arguments)
    : tensors_(arguments.tensors.begin(), arguments.tensors.end()), queues_(arguments.queues) {
  Json queues = Json::array();
  for (const TensorQueue& queue : queues_) queues.push_back(hand_over(queue, descriptors_));
  const std::string& text = arguments.text;  // Any bytes.
  const Json fields = {{"function", function},
                       {"tensors", hand_over(tensors_, descriptors_)},
                       {"queues", std::move(queues)},
                       {"text", Json::binary(std::vector<std::uint8_t>(text.begin(), text.end()))}};
  Json::to_cbor(fields, bytes_);
}

void PackedCall::send_to(SpawnedProcess& process) const {
  const std::vector<int>& all = descriptors_.all;
  const Json sizes = {
      {"index", process.index}, {"bytes", bytes_.size()}, {"descriptors", all.size()}};
  const UniqueFd lifeline = std::move(process.lifeline_of_worker);
  if (!send(process, sizes.dump(), {lifeline.get()})) return;
  std::size_t sent_bytes = 0, sent_descriptors = 0;
  while (sent_bytes < bytes_.size() || sent_descriptors < all.size()) {
    const std::size_t bytes = std::min(kSliceBytes, bytes_.size() - sent_bytes);
    const std::size_t count = std::min(kPacketDescriptorsMax, all.size() - sent_descriptors);
    const int* first = all.data() + sent_descriptors;
    if (!send(process, bytes_.substr(sent_bytes, bytes), {first, first + count})) return;
    sent_bytes += bytes;
    sent_descriptors += count;
  }
}

std::optional<ReceivedCall> receive_call(int control) {
  auto head = receive_packet(control);
  TORCH_CHECK(head, "take over arguments: ", head.error().message);
  if (head->has_ended) return std::nullopt;
  const Json sizes = Json::parse(head->bytes);
  TORCH_CHECK_VALUE(head->descriptors.size() == 1, "take over arguments: no lifeline");
  ReceivedCall call{.index = sizes.at("index").get<int>(),
                    .lifeline = std::move(head->descriptors[0])};
  const auto bytes = sizes.at("bytes").get<std::size_t>();
  const auto descriptors = sizes.at("descriptors").get<std::size_t>();
  while (call.bytes.size() < bytes || call.descriptors.size() < descriptors) {
    auto packet = receive_packet(control);
    TORCH_CHECK(packet, "take over arguments: ", packet.error().message);
    if (packet->has_ended) return std::nullopt;
    call.bytes += packet->bytes;
    std::move(packet->descriptors.begin(), packet->descriptors.end(),
              std::back_inserter(call.descriptors));
  }
  return call;
}

SpawnCall ReceivedCall::unpack() {
  const Json fields = Json::from_cbor(bytes);
  SpawnCall call{.function = fields.at("function").get<std::string>(), .index = index};
  for (const SharedTensor& shared : taken_over(fields.at("tensors"), descriptors)) {
    call.arguments.tensors.push_back(shared.tensor());
  }
  for (const Json& queue : fields.at("queues")) {
    call.arguments.queues.push_back(taken_over_queue(queue, descriptors));
  }
  const auto& text = fields.at("text").get_binary();
  call.arguments.text.assign(text.begin(), text.end());
  return call;
}

}  // namespace distrun::internal

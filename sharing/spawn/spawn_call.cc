#include "sharing/spawn/spawn_call.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <iterator>
#include <utility>

#include <c10/util/Exception.h>
#include <nlohmann/json.hpp>

#include "common/os/packet_socket.h"
#include "sharing/memory/number_field.h"
#include "sharing/queue/queue_fields.h"

namespace distrun::internal {

namespace {

using Json = nlohmann::json;
using Clock = ProcessSet::Clock;

constexpr std::size_t kSliceBytes = std::size_t{64} * 1024;

// Descriptors of the user's other processes in flight count too, and no event reports that there
// are fewer.
constexpr std::chrono::seconds kTooManyPatience{10};
constexpr std::chrono::milliseconds kLookAgain{1};

struct Way {
  const StartedProcess& process;
  ProcessSet& set;
  Clock::time_point until;

  // False if there is no point in continuing.
  bool send(const std::string& bytes, const std::vector<int>& descriptors) const {
    const auto patient_until = Clock::now() + kTooManyPatience;
    for (;;) {
      const auto sent = send_packet(process.control.get(), bytes, descriptors);
      const bool are_too_many = !sent && errno == ETOOMANYREFS;
      if (sent) return true;
      if (sent.error().kind == ErrorKind::kNotFound) return false;
      const bool is_full = sent.error().kind == ErrorKind::kTimedOut;
      TORCH_CHECK(is_full || (are_too_many && Clock::now() < patient_until),
                  "hand over arguments to process ", process.index, ": ", sent.error().message);
      const auto look = is_full ? until : std::min(until, Clock::now() + kLookAgain);
      if (!set.wait_to_send(process, is_full, look) || Clock::now() >= until) return false;
    }
  }
};

std::string to_cbor(const Json& fields) {
  std::string bytes;
  Json::to_cbor(fields, bytes);
  return bytes;
}

// Turns Json's exceptions into c10::ValueError.
template <class Call>
auto checked(const Call& call) {
  try {
    return call();
  } catch (const Json::exception& error) {
    TORCH_CHECK_VALUE(false, "take over arguments: the message is malformed: ", error.what());
  }
}

}  // namespace

PackedCall::PackedCall(const std::string& function, const SpawnArguments& arguments)
    : tensors_(arguments.tensors.begin(), arguments.tensors.end()), queues_(arguments.queues) {
  const std::string& text = arguments.text;  // Any bytes.
  bytes_ = to_cbor({{"function", function},
                    {"tensors", hand_over(tensors_, descriptors_)},
                    {"text", Json::binary(std::vector<std::uint8_t>(text.begin(), text.end()))}});
}

void PackedCall::send_to(StartedProcess& process, ProcessSet& set, Clock::time_point until) const {
  MessageDescriptors descriptors{.all = descriptors_.all};  // Queues are added below.
  Json queues = Json::array();
  for (const TensorQueue& queue : queues_) queues.push_back(hand_over(queue, descriptors));
  const std::vector<int>& all = descriptors.all;
  const std::string queue_bytes = to_cbor(queues), every_byte = bytes_ + queue_bytes;
  const Json sizes = {{"index", process.index},
                      {"bytes", every_byte.size()},
                      {"queue bytes", queue_bytes.size()},
                      {"descriptors", all.size()}};
  const UniqueFd lifeline = std::move(process.lifeline_of_worker);
  const Way way{process, set, until};
  if (!way.send(sizes.dump(), {lifeline.get()})) return;
  std::size_t sent_bytes = 0, sent_descriptors = 0;
  while (sent_bytes < every_byte.size() || sent_descriptors < all.size()) {
    const std::size_t bytes = std::min(kSliceBytes, every_byte.size() - sent_bytes);
    const std::size_t count = std::min(kPacketDescriptorsMax, all.size() - sent_descriptors);
    const int* first = all.data() + sent_descriptors;
    if (!way.send(every_byte.substr(sent_bytes, bytes), {first, first + count})) return;
    sent_bytes += bytes;
    sent_descriptors += count;
  }
}

std::optional<ReceivedCall> receive_call(int control) {
  auto head = receive_packet(control);
  TORCH_CHECK(head, "take over arguments: ", head.error().message);
  if (head->has_ended) return std::nullopt;
  TORCH_CHECK_VALUE(head->descriptors.size() == 1, "take over arguments: no lifeline");
  const Json sizes = checked([&] { return Json::parse(head->bytes); });
  const auto size = [&](const char* what) {
    return checked([&] { return number_field<std::size_t>(sizes.at(what)); });
  };
  const auto bytes = size("bytes"), descriptors = size("descriptors");
  ReceivedCall call{.index = checked([&] { return number_field<int>(sizes.at("index")); }),
                    .lifeline = std::move(head->descriptors[0]),
                    .queue_bytes = size("queue bytes")};
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
  TORCH_CHECK_VALUE(queue_bytes <= bytes.size(), "take over arguments: ", queue_bytes, " of ",
                    bytes.size(), " bytes are queues");
  const auto queues_begin = bytes.end() - static_cast<std::ptrdiff_t>(queue_bytes);
  return checked([&] {
    const Json fields = Json::from_cbor(bytes.begin(), queues_begin);
    const Json queues = Json::from_cbor(queues_begin, bytes.end());
    SpawnCall call{.function = fields.at("function").get<std::string>(), .index = index};
    call.arguments.tensors = taken_over(fields.at("tensors"), descriptors);
    for (const Json& queue : queues) {
      call.arguments.queues.push_back(taken_over_queue(queue, descriptors));
    }
    const auto& text = fields.at("text").get_binary();
    call.arguments.text.assign(text.begin(), text.end());
    return call;
  });
}

}  // namespace distrun::internal

#include "sharing/queue/queue_item.h"

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include <c10/util/Exception.h>
#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <unistd.h>

#include "distrun/result.h"
#include "sharing/memory/memory_file.h"
#include "sharing/memory/number_field.h"
#include "sharing/queue/queue_holder.h"

namespace distrun::internal {

namespace {

using Json = nlohmann::json;

std::string to_bytes(const Json& fields) {
  std::string bytes;
  Json::to_cbor(fields, bytes);
  return bytes;
}

Json fields_of(const std::string& bytes) { return Json::from_cbor(bytes, /*strict=*/false); }

UniqueFd file_of(const std::string& bytes) {
  UniqueFd file = make_memory_file("distrun item", bytes.size(),
                                   "put " + std::to_string(bytes.size()) + " bytes");
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t count = ::write(file.get(), bytes.data() + done, bytes.size() - done);
    if (count < 0 && errno == EINTR) continue;
    TORCH_CHECK(count > 0, "put ", bytes.size(), " bytes: ", Error::from_errno("write").message);
    done += static_cast<std::size_t>(count);
  }
  return file;
}

std::string content_of(const UniqueFd& file) {
  struct stat facts {};
  TORCH_CHECK_VALUE(::fstat(file.get(), &facts) == 0 && S_ISREG(facts.st_mode), "descriptor ",
                    file.get(), " has no content");
  std::string bytes(static_cast<std::size_t>(facts.st_size), '\0');
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t count =
        ::pread(file.get(), bytes.data() + done, bytes.size() - done, static_cast<off_t>(done));
    if (count < 0 && errno == EINTR) continue;
    TORCH_CHECK_VALUE(count > 0, "descriptor ", file.get(), " has less content than its size");
    done += static_cast<std::size_t>(count);
  }
  return bytes;
}

// A socket that contains `descriptors` and then ends.
UniqueFd socket_of(const std::vector<int>& descriptors) {
  auto sockets = make_packet_sockets();
  TORCH_CHECK(sockets, "put ", descriptors.size(), " storages: ", sockets.error().message);
  ::fcntl(sockets->first.get(), F_SETFL, O_NONBLOCK);
  ::fcntl(sockets->second.get(), F_SETFL, O_NONBLOCK);
  for (auto at = descriptors.begin(); at != descriptors.end();) {
    const auto count = std::min<std::ptrdiff_t>(descriptors.end() - at, kPacketDescriptorsMax);
    const auto sent = send_packet(sockets->first.get(), "x", {at, at + count});
    TORCH_CHECK_VALUE(sent || sent.error().kind != ErrorKind::kTimedOut, "put ", descriptors.size(),
                      " storages: too many for one item");
    TORCH_CHECK(sent, "put ", descriptors.size(), " storages: ", sent.error().message);
    at += count;
  }
  return std::move(sockets->second);
}

std::vector<UniqueFd> descriptors_in(const UniqueFd& socket) {
  std::vector<UniqueFd> descriptors;
  for (;;) {
    auto packet = receive_packet(socket.get());
    TORCH_CHECK_VALUE(packet || packet.error().kind == ErrorKind::kSystem,
                      "a socket of descriptors has no end");
    TORCH_CHECK(packet, packet.error().message);
    if (packet->has_ended) return descriptors;
    std::ranges::move(packet->descriptors, std::back_inserter(descriptors));
  }
}

void move_out_of_packet(PackedItem& packed) {
  MessageDescriptors outer;
  outer.owned.push_back(file_of(packed.bytes));
  outer.all.push_back(outer.owned.back().get());
  int more = -1;
  if (packed.descriptors.all.size() + 1 > kPacketDescriptorsMax) {
    more = 1;
    outer.owned.push_back(socket_of(packed.descriptors.all));
    outer.all.push_back(outer.owned.back().get());
  } else {
    outer.all.insert(outer.all.end(), packed.descriptors.all.begin(), packed.descriptors.all.end());
  }
  packed.descriptors = std::move(outer);
  packed.bytes = to_bytes({{"content", 0}, {"more", more}});
}

UniqueFd take(std::vector<UniqueFd>& descriptors, const Json& field) {
  const auto at = number_field<std::size_t>(field);
  TORCH_CHECK_VALUE(at < descriptors.size(), "no descriptor ", at);
  return std::move(descriptors[at]);
}

// The fields of an item, and the descriptors to which they refer.
std::pair<Json, std::vector<UniqueFd>> open(Packet packet) {
  Json fields = fields_of(packet.bytes);
  if (!fields.contains("content")) return {std::move(fields), std::move(packet.descriptors)};
  Json content = fields_of(content_of(take(packet.descriptors, fields["content"])));
  if (fields.at("more") != -1) {
    return {std::move(content), descriptors_in(take(packet.descriptors, fields["more"]))};
  }
  packet.descriptors.erase(packet.descriptors.begin());
  return {std::move(content), std::move(packet.descriptors)};
}

}  // namespace

PackedItem pack(const TensorQueue::Item& item) {
  PackedItem packed;
  for (const at::Tensor& tensor : item.tensors) packed.tensors.emplace_back(tensor);
  const Json::binary_t text(std::vector<std::uint8_t>(item.text.begin(), item.text.end()));
  packed.bytes =
      to_bytes({{"tensors", hand_over(packed.tensors, packed.descriptors)}, {"text", text}});
  if (packed.bytes.size() > kItemPacketBytes ||
      packed.descriptors.all.size() > kPacketDescriptorsMax) {
    move_out_of_packet(packed);
  }
  return packed;
}

TensorQueue::Item unpack(Packet packet) {
  try {
    auto [fields, descriptors] = open(std::move(packet));
    TensorQueue::Item item;
    item.tensors = taken_over(fields.at("tensors"), descriptors);
    const auto& text = fields.at("text").get_binary();
    item.text.assign(text.begin(), text.end());
    return item;
  } catch (const nlohmann::json::exception& error) {
    TORCH_CHECK_VALUE(false, "get from a queue: the item is malformed: ", error.what());
  }
}

}  // namespace distrun::internal

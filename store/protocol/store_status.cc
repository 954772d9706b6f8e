#include "distrun/store_status.h"

#include <exception>

#include <nlohmann/json.hpp>

#include "common/text/json_number.h"
#include "common/text/text_cut.h"

namespace distrun {

namespace {

using nlohmann::json;

constexpr std::size_t kShownBytesMax = 200;  // Of a key.

double rounded(double seconds) {
  return static_cast<double>(static_cast<std::int64_t>(seconds * 1000)) / 1000;
}

json json_of(const StoreWait& wait) {
  json object = {{"keys", json::array()}, {"keys_left", wait.keys_left}};
  for (const std::string& key : wait.keys) object["keys"].push_back(shortened(key, kShownBytesMax));
  if (wait.arrivals_wanted > 0) {
    object["arrived"] = wait.arrived;
    object["arrivals_wanted"] = wait.arrivals_wanted;
  }
  return object;
}

json json_of(const StoreStatus::Peer& peer) {
  json object = {{"address", peer.address},
                 {"store_address", peer.store_address},
                 {"connected_s", rounded(peer.connected_s)},
                 {"idle_s", rounded(peer.idle_s)},
                 {"last_request", peer.last_request}};
  if (peer.wait) object["wait"] = json_of(*peer.wait);
  return object;
}

json json_of(const StoreStatus::GaveUp& gave_up) {
  return {{"address", gave_up.address},
          {"ago_s", rounded(gave_up.ago_s)},
          {"waited_s", rounded(gave_up.waited_s)},
          {"wait", json_of(gave_up.wait)}};
}

json json_of(const StoreStatus::Closed& closed) {
  return {{"address", closed.address}, {"ago_s", rounded(closed.ago_s)}, {"reason", closed.reason}};
}

template <class Item>
json json_of(const std::vector<Item>& items) {
  json array = json::array();
  for (const Item& item : items) array.push_back(json_of(item));
  return array;
}

template <class Number>
void read_number(const json& object, const char* name, Number& into) {
  into = required_number<Number>(object.at(name));
}

void read(const json& object, StoreWait& wait) {
  object.at("keys").get_to(wait.keys);
  read_number(object, "keys_left", wait.keys_left);
  if (object.contains("arrived")) read_number(object, "arrived", wait.arrived);
  if (object.contains("arrivals_wanted")) {
    read_number(object, "arrivals_wanted", wait.arrivals_wanted);
  }
}

void read(const json& object, StoreStatus::Peer& peer) {
  object.at("address").get_to(peer.address);
  object.at("store_address").get_to(peer.store_address);
  object.at("connected_s").get_to(peer.connected_s);
  object.at("idle_s").get_to(peer.idle_s);
  object.at("last_request").get_to(peer.last_request);
  if (object.contains("wait")) read(object.at("wait"), peer.wait.emplace());
}

void read(const json& object, StoreStatus::GaveUp& gave_up) {
  object.at("address").get_to(gave_up.address);
  object.at("ago_s").get_to(gave_up.ago_s);
  object.at("waited_s").get_to(gave_up.waited_s);
  read(object.at("wait"), gave_up.wait);
}

void read(const json& object, StoreStatus::Closed& closed) {
  object.at("address").get_to(closed.address);
  object.at("ago_s").get_to(closed.ago_s);
  object.at("reason").get_to(closed.reason);
}

template <class Item>
void read(const json& array, std::vector<Item>& items) {
  for (const json& object : array) read(object, items.emplace_back());
}

}  // namespace

std::string to_json(const StoreStatus& status) {
  const json object = {{"address", status.address},
                       {"up_s", rounded(status.up_s)},
                       {"keys", status.keys},
                       {"bytes", status.bytes},
                       {"connections", status.connections},
                       {"waiting", status.waiting},
                       {"refused", status.refused},
                       {"peers", json_of(status.peers)},
                       {"gave_up", json_of(status.gave_up)},
                       {"closed", json_of(status.closed)}};
  return object.dump(-1, ' ', /*ensure_ascii=*/false, json::error_handler_t::replace);
}

Result<StoreStatus> store_status_from_json(std::string_view text) {
  try {
    const json object = json::parse(text);
    StoreStatus status;
    object.at("address").get_to(status.address);
    object.at("up_s").get_to(status.up_s);
    read_number(object, "keys", status.keys);
    read_number(object, "bytes", status.bytes);
    read_number(object, "connections", status.connections);
    read_number(object, "waiting", status.waiting);
    read_number(object, "refused", status.refused);
    read(object.at("peers"), status.peers);
    read(object.at("gave_up"), status.gave_up);
    read(object.at("closed"), status.closed);
    return status;
  } catch (const std::exception& error) {
    return Error{ErrorKind::kProtocol, std::string("status: ") + error.what()};
  }
}

}  // namespace distrun

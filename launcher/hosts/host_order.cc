#include "launcher/hosts/host_order.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <exception>

#include <nlohmann/json.hpp>

#include "common/text/begins_with_any.h"
#include "common/text/json_bytes.h"
#include "common/text/json_number.h"
#include "store/protocol/wire.h"

namespace distrun {

namespace {

using Length = std::uint32_t;
static_assert(sizeof(Length) == kLengthBytes);

constexpr auto kPassedBeginnings =
    std::to_array<std::string_view>({"CUDA_", "DISTRUN_", "FI_", "GLOO_", "GOMP_", "KMP_", "MKL_",
                                     "NCCL_", "OMP_", "PYTHON", "PYTORCH_", "TORCH", "UCX_"});
constexpr auto kPassedNames = std::to_array<std::string_view>(
    {"PATH", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "CONDA_PREFIX", "LOGLEVEL"});

}  // namespace

std::string encode(const HostOrder& order) {
  nlohmann::json message = {{"command", json_bytes(order.command)},
                            {"folder", json_bytes(order.folder)},
                            {"end_max_ms", order.end_max.count()},
                            {"arguments", nlohmann::json::array()},
                            {"environment", nlohmann::json::array()}};
  for (const std::string& argument : order.arguments) {
    message["arguments"].push_back(json_bytes(argument));
  }
  for (const auto& [name, value] : order.environment.variables()) {
    message["environment"].push_back({json_bytes(name), json_bytes(value)});
  }
  const auto cbor = nlohmann::json::to_cbor(message);
  std::string bytes;
  append_number(bytes, static_cast<Length>(cbor.size()));
  return bytes.append(cbor.begin(), cbor.end());
}

Result<std::size_t> decode_length(std::string_view bytes) {
  const auto length = number_at<Length>(bytes);
  if (length > kOrderBytesMax) return Error{ErrorKind::kProtocol, "the order is too long"};
  return std::size_t{length};
}

Result<HostOrder> decode_order(std::string_view bytes) {
  HostOrder order;
  try {
    const auto message = nlohmann::json::from_cbor(bytes);
    order.command = text_of_bytes(message.at("command"));
    order.folder = text_of_bytes(message.at("folder"));
    order.end_max =
        std::chrono::milliseconds(required_number<std::int64_t>(message.at("end_max_ms")));
    for (const auto& argument : message.at("arguments")) {
      order.arguments.push_back(text_of_bytes(argument));
    }
    for (const auto& variable : message.at("environment")) {
      order.environment.set(text_of_bytes(variable.at(0)), text_of_bytes(variable.at(1)));
    }
  } catch (const std::exception& error)  // Of JSON, or a number out of its range.
  {
    return Error{ErrorKind::kProtocol, error.what()};
  }
  return order;
}

std::string control_byte(int signal) { return {static_cast<char>(signal)}; }

Environment passed_variables(const Environment& environment, std::span<const std::string> more) {
  Environment passed;
  for (const auto& [name, value] : environment.variables()) {
    const bool is_usual = begins_with_any(name, kPassedBeginnings) ||
                          std::count(kPassedNames.begin(), kPassedNames.end(), name) > 0;
    // Other hosts have other devices, and other workers.
    const bool is_of_one_host = name == "CUDA_VISIBLE_DEVICES" || name.starts_with("TORCHELASTIC_");
    const bool is_asked = std::count(more.begin(), more.end(), name) > 0;
    if ((is_usual && !is_of_one_host) || is_asked) passed.set(name, value);
  }
  return passed;
}

}  // namespace distrun

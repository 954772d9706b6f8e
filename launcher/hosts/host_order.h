// HostOrder says what distrun's agent starts on a host. The agent reads it from stdin; single bytes
// follow it.
//
//     write(kAliveBytes);
//     write(encode(HostOrder{.arguments = {"--", "./train"}, .folder = "/home/me", …}));
//     write(control_byte(SIGTERM));
//     …
//     close()                          // The agent ends the run of its host.
//
// The order is its length (4 bytes, little-endian) and CBOR. Both ends are the same program, so the
// format has no version. Pure.
#pragma once

#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/os/environment.h"
#include "common/units.h"
#include "distrun/result.h"

namespace distrun {

struct HostOrder {
  std::string command = "launch";       // Or another that runs on several nodes.
  std::vector<std::string> arguments;   // Of this command of distrun.
  std::string folder;                   // In which the workers start.
  Environment environment;              // Added to the agent's own.
  std::chrono::milliseconds end_max{};  // From the loss of the connection to SIGKILL.
};

inline constexpr std::size_t kOrderBytesMax = 16 * kMiB;
inline constexpr std::size_t kLengthBytes = 4;

std::string encode(const HostOrder& order);

// The length of the order that follows. Fails with kProtocol if it is more than kOrderBytesMax.
Result<std::size_t> decode_length(std::string_view bytes);
Result<HostOrder> decode_order(std::string_view bytes);

// A byte after the order: the number of a signal to pass on, or kAlive.
inline constexpr char kAlive = '\0';
std::string control_byte(int signal);

// Keeps the connection alive, before and after the order.
inline constexpr std::string_view kAliveBytes("\0\0\0\0", kLengthBytes);

// The variables that processes on all hosts need: those of Python, PyTorch, the libraries below it,
// and PATH, but not CUDA_VISIBLE_DEVICES. `more` lists further names.
Environment passed_variables(const Environment& environment, std::span<const std::string> more);

}  // namespace distrun

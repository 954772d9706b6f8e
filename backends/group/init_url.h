// Parses the init_method of init_process_group().
//
//     const auto url = parse_init_url("tcp://10.1.1.20:23456?rank=0&world_size=4");
//     url->host;  // "10.1.1.20"
//
// Pure. PyTorch source: torch/distributed/rendezvous.py.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "distrun/result.h"

namespace distrun::internal {

struct InitUrl {
  enum class Scheme { kEnv, kTcp, kFile };
  Scheme scheme = Scheme::kEnv;
  std::string host;                     // With kTcp; an IPv6 address without brackets.
  std::uint16_t port = 0;               // With kTcp.
  std::string path;                     // With kFile.
  std::optional<int> rank, world_size;  // From "?rank=0&world_size=4".
};

// Fails with kInvalidArgument if the text is not env://, tcp://HOST:PORT or file:///absolute/path,
// or has a parameter other than rank, world_size and use_libuv. PyTorch's use_libuv is ignored.
Result<InitUrl> parse_init_url(std::string_view text);

}  // namespace distrun::internal

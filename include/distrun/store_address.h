// The address of a store or of a client.
//
//     auto address = parse_store_address("[::1]:29500");     // {"::1", 29500}
//     address->text()                                        // "[::1]:29500"
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "distrun/result.h"

namespace distrun {

// A host and a port.
struct StoreAddress {
  std::string host;        // A host name, or an IP address without brackets.
  std::uint16_t port = 0;  // The TCP port.

  std::string text() const;  // Returns "node7:29500", "127.0.0.1:29500" or "[::1]:29500".
};

// Parses "HOST:PORT".  If HOST is an IPv6 address, it must be in brackets.  Fails with
// kInvalidArgument if the text is malformed.
Result<StoreAddress> parse_store_address(std::string_view text);

}  // namespace distrun

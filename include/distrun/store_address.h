// Where a store is, or a client of one.
//
//     auto address = parse_store_address("[::1]:29500");     // {"::1", 29500}
//     address->text()                                        // "[::1]:29500"
//
// Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "distrun/result.h"

namespace distrun {

struct StoreAddress {
  std::string host;  // A name, or a numeric address without brackets.
  std::uint16_t port = 0;

  std::string text() const;  // "node7:29500", "127.0.0.1:29500", "[::1]:29500".
};

// "HOST:PORT"; an IPv6 address is in brackets.  Fails with kInvalidArgument.
Result<StoreAddress> parse_store_address(std::string_view text);

}  // namespace distrun

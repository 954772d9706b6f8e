// What one client may ask of a store.  A request beyond a limit closes the connection
// that it came on.
#pragma once

#include <cstddef>

#include "common/units.h"

namespace distrun {

// The defaults for keys and values are those of PyTorch's own server.
struct StoreLimits {
  std::size_t key_bytes_max = 8 * kKiB;
  std::size_t value_bytes_max = 8 * kMiB;      // Also of a value that append has made longer.
  std::size_t keys_max = 131'072;              // In one check, wait, multi_get or multi_set.
  std::size_t request_bytes_max = 128 * kMiB;  // What one connection may make us keep …
  std::size_t reply_bytes_max = 128 * kMiB;    // … and what it may be answered at once.
};

}  // namespace distrun

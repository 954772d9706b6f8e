#include "cli/random_run_id.h"

#include <random>

#include <fmt/format.h>

namespace distrun {

std::string random_run_id() {
  std::random_device random;
  const unsigned a = random(), b = random(), c = random(), d = random();
  return fmt::format("{:08x}-{:04x}-4{:03x}-{:04x}-{:04x}{:08x}", a, b >> 16, b & 0xfff,
                     0x8000 | (c >> 18), c & 0xffff, d);
}

}  // namespace distrun

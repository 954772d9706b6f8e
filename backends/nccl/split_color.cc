#include "backends/nccl/split_color.h"

#include <bit>
#include <cstdint>
#include <cstdlib>

namespace distrun::internal {

int split_color(const std::vector<int>& ranks) {
  constexpr std::uint64_t kPrime1 = 11400714785074694791U, kPrime2 = 14029467366897019727U,
                          kPrime5 = 2870177450012600261U;
  std::uint64_t hash = kPrime5;
  for (const int rank : ranks) {
    hash += static_cast<std::uint64_t>(rank) * kPrime2;
    hash = std::rotl(hash, 31) * kPrime1;
  }
  hash += ranks.size() ^ (kPrime5 ^ 3527539U);
  // Python reserves -1 for errors. Its `abs(hash) % 2**31`:
  const auto value = hash == ~std::uint64_t{0} ? 1546275796 : static_cast<std::int64_t>(hash);
  const std::uint64_t size = value < 0 ? std::uint64_t{0} - static_cast<std::uint64_t>(value)
                                       : static_cast<std::uint64_t>(value);
  return static_cast<int>(size % (std::uint64_t{1} << 31));
}

}  // namespace distrun::internal

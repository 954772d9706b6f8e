// The seeds of PowerSGD's random numbers: the same as Python takes from NumPy.
#pragma once

#include <cstdint>
#include <random>
#include <sstream>
#include <string>

#include <c10/util/Exception.h>

namespace distrun::internal {

// numpy.random.RandomState(seed).randint(1_000_000_000).
class SeedStream {
 public:
  explicit SeedStream(std::uint32_t seed) : engine_(seed) {}

  std::uint64_t next() {
    // NumPy masks to the next power of two, and repeats until the number is in the range.
    constexpr std::uint64_t kEnd = 1'000'000'000;
    constexpr std::uint64_t kMask = (std::uint64_t{1} << 30) - 1;
    while (true) {
      const std::uint64_t number = engine_() & kMask;
      if (number < kEnd) return number;
    }
  }

  // The state of the generator as text.
  std::string saved() const {
    std::ostringstream text;
    text << engine_;
    return text.str();
  }
  void load(const std::string& saved) {
    std::istringstream text(saved);
    text >> engine_;
    TORCH_CHECK(!text.fail(), "PowerSGDState: the archive has no state of a random generator");
  }

 private:
  std::mt19937 engine_;
};

}  // namespace distrun::internal

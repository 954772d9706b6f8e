// Reads the memory of another process.
//
//     const ReadMemory read = …;
//     if (const auto head = read_value<std::uint64_t>(read, address)) …
//
// Reading fails for unmapped memory, and never throws.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <type_traits>

namespace distrun {

// False if the `size` bytes cannot all be read.
using ReadMemory = std::function<bool(std::uint64_t address, void* into, std::size_t size)>;

template <class T>
std::optional<T> read_value(const ReadMemory& read, std::uint64_t address) {
  static_assert(std::is_trivially_copyable_v<T>);
  T value{};
  if (!read(address, &value, sizeof(value))) return std::nullopt;
  return value;
}

}  // namespace distrun

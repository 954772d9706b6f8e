#include "evidence/python/python_layout.h"

#include <array>
#include <string_view>

namespace distrun {

namespace {

constexpr PythonLayout kPython310{.interpreters_head = 32,
                                  .interpreter_next = 0,
                                  .threads_head = 8,
                                  .thread_next = 8,
                                  .thread_id = 176,
                                  .cframe = std::nullopt,
                                  .current_frame = 24,
                                  .code = 32,
                                  .previous = 24,
                                  .instruction = 96,
                                  .owner = std::nullopt,
                                  .filename = 104,
                                  .name = 112,
                                  .line_table = 120,
                                  .first_line = 40,
                                  .instructions = std::nullopt,
                                  .length = 16,
                                  .state = 32,
                                  .ascii_bytes = 48,
                                  .compact_bytes = 72,
                                  .bytes_size = 16,
                                  .bytes_value = 32,
                                  .lines = PythonLines::kPairs};

constexpr PythonLayout kPython311{.interpreters_head = 40,
                                  .interpreter_next = 0,
                                  .threads_head = 16,
                                  .thread_next = 8,
                                  .thread_id = 152,
                                  .cframe = 56,
                                  .current_frame = 8,
                                  .code = 32,
                                  .previous = 48,
                                  .instruction = 56,
                                  .owner = 69,
                                  .filename = 112,
                                  .name = 128,
                                  .line_table = 136,
                                  .first_line = 72,
                                  .instructions = 184,
                                  .length = 16,
                                  .state = 32,
                                  .ascii_bytes = 48,
                                  .compact_bytes = 72,
                                  .bytes_size = 16,
                                  .bytes_value = 32};

constexpr PythonLayout kPython312{.interpreters_head = 40,
                                  .interpreter_next = 0,
                                  .threads_head = 72,
                                  .thread_next = 8,
                                  .thread_id = 136,
                                  .cframe = 56,
                                  .current_frame = 0,
                                  .code = 0,
                                  .previous = 8,
                                  .instruction = 56,
                                  .owner = 70,
                                  .filename = 112,
                                  .name = 128,
                                  .line_table = 136,
                                  .first_line = 68,
                                  .instructions = 192,
                                  .length = 16,
                                  .state = 32,
                                  .ascii_bytes = 40,
                                  .compact_bytes = 56,
                                  .bytes_size = 16,
                                  .bytes_value = 32};

// Indices of 64-bit numbers at the start of _PyRuntime. Versions insert members, so each has its
// own.
struct Described {
  std::size_t interpreters_head, interpreter_next, threads_head, thread_next, thread_id;
  std::size_t current_frame, previous, code, instruction, owner;
  std::size_t filename, name, line_table, first_line, instructions;
  std::size_t bytes_size, bytes_value, state, length, ascii_bytes;
};

constexpr Described kDescribed313{.interpreters_head = 5,
                                  .interpreter_next = 8,
                                  .threads_head = 9,
                                  .thread_next = 21,
                                  .thread_id = 24,
                                  .current_frame = 23,
                                  .previous = 29,
                                  .code = 30,
                                  .instruction = 31,
                                  .owner = 33,
                                  .filename = 35,
                                  .name = 37,
                                  .line_table = 38,
                                  .first_line = 39,
                                  .instructions = 43,
                                  .bytes_size = 65,
                                  .bytes_value = 66,
                                  .state = 68,
                                  .length = 69,
                                  .ascii_bytes = 70};

constexpr Described kDescribed314{.interpreters_head = 5,
                                  .interpreter_next = 8,
                                  .threads_head = 9,
                                  .thread_next = 24,
                                  .thread_id = 27,
                                  .current_frame = 26,
                                  .previous = 32,
                                  .code = 33,
                                  .instruction = 34,
                                  .owner = 36,
                                  .filename = 40,
                                  .name = 42,
                                  .line_table = 43,
                                  .first_line = 44,
                                  .instructions = 48,
                                  .bytes_size = 75,
                                  .bytes_value = 76,
                                  .state = 78,
                                  .length = 79,
                                  .ascii_bytes = 80};

std::optional<PythonLayout> described_layout(const ReadMemory& read, std::uint64_t runtime,
                                             const Described& at, bool atomic_interned) {
  constexpr std::string_view kCookie = "xdebugpy";
  const auto described = read_value<std::array<std::uint64_t, 128>>(read, runtime);
  if (!described) return std::nullopt;
  if (std::string_view(reinterpret_cast<const char*>(described->data()), kCookie.size()) != kCookie)
    return std::nullopt;
  const auto& number = *described;
  // One member separates these two in every version; otherwise the indices belong to another
  // version.
  const bool is_known = number[at.bytes_value] == number[at.bytes_size] + 16 &&
                        number[at.state] == number[at.length] + 16;
  if (!is_known) return std::nullopt;
  const bool free_threaded = number[2] != 0;
  const std::uint32_t interned_bits = free_threaded && atomic_interned ? 8 : 2;
  const std::uint64_t ascii_bytes = number[at.ascii_bytes];
  return PythonLayout{.interpreters_head = number[at.interpreters_head],
                      .interpreter_next = number[at.interpreter_next],
                      .threads_head = number[at.threads_head],
                      .thread_next = number[at.thread_next],
                      .thread_id = number[at.thread_id],
                      .cframe = std::nullopt,
                      .current_frame = number[at.current_frame],
                      .code = number[at.code],
                      .previous = number[at.previous],
                      .instruction = number[at.instruction],
                      .owner = number[at.owner],
                      .filename = number[at.filename],
                      .name = number[at.name],
                      .line_table = number[at.line_table],
                      .first_line = number[at.first_line],
                      .instructions = number[at.instructions],
                      .length = number[at.length],
                      .state = number[at.state],
                      .interned_bits = interned_bits,
                      .ascii_bytes = ascii_bytes,
                      .compact_bytes = ascii_bytes + 2 * sizeof(std::uint64_t),
                      .bytes_size = number[at.bytes_size],
                      .bytes_value = number[at.bytes_value]};
}

}  // namespace

PythonVersion python_version(std::uint64_t hex) {
  return {static_cast<int>(hex >> 24 & 255), static_cast<int>(hex >> 16 & 255)};
}

std::optional<PythonLayout> python_layout(const ReadMemory& read, std::uint64_t runtime,
                                          PythonVersion version) {
  if (version.major != 3) return std::nullopt;
  switch (version.minor) {
    case 10:
      return kPython310;
    case 11:
      return kPython311;
    case 12:
      return kPython312;
    case 13:
      return described_layout(read, runtime, kDescribed313, /*atomic_interned=*/false);
    case 14:
      return described_layout(read, runtime, kDescribed314, /*atomic_interned=*/true);
    default:
      return std::nullopt;
  }
}

}  // namespace distrun

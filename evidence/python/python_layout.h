// Offsets in the structures in which CPython keeps the frames of its threads.
//
//     if (const auto layout = python_layout(read, runtime, version)) …
//
// Python 3.13 and newer describe themselves at the start of _PyRuntime. The offsets of 3.10 to 3.12
// are fixed, and listed here.
#pragma once

#include <cstdint>
#include <optional>

#include "evidence/python/line_table.h"
#include "evidence/python/memory.h"

namespace distrun {

struct PythonVersion {
  int major = 0, minor = 0;
};

// From Py_Version, such as 0x030b07f0.
PythonVersion python_version(std::uint64_t hex);

// Offsets in bytes, named like CPython's members.
struct PythonLayout {
  std::uint64_t interpreters_head = 0;                    // _PyRuntimeState
  std::uint64_t interpreter_next = 0, threads_head = 0;   // PyInterpreterState
  std::uint64_t thread_next = 0, thread_id = 0;           // PyThreadState
  std::optional<std::uint64_t> cframe;                    // Contains current_frame in 3.11, 3.12.
  std::uint64_t current_frame = 0;                        // PyThreadState or _PyCFrame
  std::uint64_t code = 0, previous = 0, instruction = 0;  // A frame
  std::optional<std::uint64_t> owner;                     // A frame
  std::uint64_t filename = 0, name = 0, line_table = 0, first_line = 0;  // PyCodeObject
  std::optional<std::uint64_t> instructions;  // PyCodeObject; 3.10 counts instructions instead.
  std::uint64_t length = 0, state = 0;        // Strings
  std::uint32_t interned_bits = 2;            // The lowest bits of `state`.
  std::uint64_t ascii_bytes = 0, compact_bytes = 0;  // Sizes of the heads of strings.
  std::uint64_t bytes_size = 0, bytes_value = 0;     // PyBytesObject
  PythonLines lines = PythonLines::kLocations;
};

// `runtime` is the address of _PyRuntime. nullopt for other versions, or if memory cannot be read.
std::optional<PythonLayout> python_layout(const ReadMemory& read, std::uint64_t runtime,
                                          PythonVersion version);

}  // namespace distrun

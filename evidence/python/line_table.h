// The line of an instruction in a Python code object.
//
//     line_of(PythonLines::kLocations, table, /*first_line=*/12, /*offset=*/20)      // 14
//
// `offset` is in bytes from the start of the code. The result is not positive if the table has no
// line for it. Pure: accepts any bytes. Format: Objects/locations.md (3.11 and newer) and
// Objects/lnotab_notes.txt (3.10) in CPython.
#pragma once

#include <cstdint>
#include <span>

namespace distrun {

enum class PythonLines {
  kPairs,      // co_linetable of Python 3.10.
  kLocations,  // co_linetable of Python 3.11 and newer.
};

int line_of(PythonLines format, std::span<const std::uint8_t> table, int first_line,
            std::int64_t offset);

}  // namespace distrun

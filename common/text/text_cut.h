// Finds places where text of unknown origin may be cut.
//
//     whole_utf8("caf\xC3")      // "caf": é is incomplete
//     cut_to_bytes("cafés", 4)   // "caf"
//     shortened("cafés", 4)       // "caf…"
//     cut_to_last_bytes("éab", 3)  // "ab"
//     last_newline("a\nb\nc")    // 3
//     cut_to_columns("cafés", 4)  // "caf…"
//
// Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace distrun {

// Drops an incomplete character at the end; keeps bytes that are not UTF-8.
std::string_view whole_utf8(std::string_view text);

// The beginning of `text`: at most `bytes_max` bytes, without an incomplete character at its end.
std::string_view cut_to_bytes(std::string_view text, std::size_t bytes_max);

// The same, and "…" if something was cut.
std::string shortened(std::string_view text, std::size_t bytes_max);

// Drops the rest of a character at the beginning; keeps bytes that are not UTF-8.
std::string_view from_first_character(std::string_view text);

// The end of `text`: at most `bytes_max` bytes, without an incomplete character at its beginning.
std::string_view cut_to_last_bytes(std::string_view text, std::size_t bytes_max);

// At most `columns` characters of UTF-8; if cut, the last is "…". Control characters count as one.
std::string cut_to_columns(std::string text, int columns);

// The index of the last '\n', or npos. Much faster than rfind(), which goes byte by byte.
std::size_t last_newline(std::string_view text);

}  // namespace distrun

// Names functions and lines in a backtrace that a crashing process wrote (backtrace.h), which has
// only addresses and mangled names.
//
//     const std::string text = named_backtrace(output, name, cut);
//     // before   #2 _ZN4Dies6die_ofEi+0x196 (/build/suites+0x9a806)
//     // after    #2 Dies::die_of (dies_test.cc:153)
//
// Drops nameless frames of libc and libstdc++ at the end, which start a thread or the program.
// Keeps other lines. Pure: `name` looks the function up, as symbol_names.h does.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "evidence/stack.h"

namespace distrun {

// The frame at `address`, which is relative to the file.
using NameFrame = std::function<Frame(const std::string& file, std::uint64_t address)>;

// Where to cut a backtrace: from some function on, the callers are the same in every one.
enum class CutFrames {
  kNo,
  kFromHere,
  kAfterThis,
};
using CutAt = std::function<CutFrames(const Frame& frame)>;

std::string named_backtrace(std::string_view text, const NameFrame& name, const CutAt& cut);

}  // namespace distrun

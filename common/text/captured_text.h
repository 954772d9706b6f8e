// CapturedText keeps the beginning and the end of a process's output.
//
//     CapturedText text;
//     text.add(bytes);
//     text.text()          // "…first lines…\n[104857600 bytes omitted]\n…last lines…"
//
// Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "common/units.h"

namespace distrun {

class CapturedText {
 public:
  static constexpr std::size_t kHeadBytesMax = 64 * kKiB;
  static constexpr std::size_t kTailBytesMax = 64 * kKiB;

  void add(std::string_view bytes);
  std::string text() const;

 private:
  std::string head_, tail_;
  std::size_t left_out_ = 0;
};

}  // namespace distrun

#include "common/text/printable.h"

#include <fmt/format.h>

#include "common/text/text_cut.h"

namespace distrun {

std::string printable(std::string_view text, std::size_t bytes_max) {
  std::string shown;
  for (const char byte : cut_to_bytes(text, bytes_max)) {
    const auto code = static_cast<unsigned char>(byte);
    if (code < 0x20 || code == 0x7F) {
      shown += fmt::format("\\x{:02x}", code);
    } else {
      shown += byte;
    }
  }
  if (text.size() > bytes_max) shown += "…";
  return shown;
}

}  // namespace distrun

// FixedText is a text of bounded size for signal handlers: it allocates nothing and drops what does
// not fit. Every method is async-signal-safe.
//
//     static FixedText<4096> text;
//     text.add("signal ").add_number(11).add(" at 0x").add_hex(address);
//     ::write(2, text.view().data(), text.view().size());
#pragma once

#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace distrun {

template <std::size_t kCapacity>
class FixedText {
 public:
  std::string_view view() const { return {bytes_.data(), size_}; }
  void clear() { size_ = 0; }

  FixedText& add(std::string_view text) {
    for (const char byte : text) put(byte);
    return *this;
  }

  FixedText& add_number(std::int64_t number) { return add_integer(number, 10); }
  FixedText& add_hex(std::uint64_t number) { return add_integer(number, 16); }

  // Escapes `text` for a JSON string. Bytes that are not ASCII become '?', because they may not be
  // valid UTF-8. Reserves room for closing the JSON, even if the text is cut.
  FixedText& add_json(std::string_view text) {
    for (const char byte : text) {
      const auto code = static_cast<unsigned char>(byte);
      if (kCapacity - size_ < 6 + kClosingBytes) break;
      if (byte == '"' || byte == '\\') {
        put('\\');
        put(byte);
      } else if (byte == '\n') {
        add("\\n");
      } else if (code < 0x20) {
        add("\\u00").put(kDigits[code >> 4]);
        put(kDigits[code & 15]);
      } else {
        put(code < 0x7F ? byte : '?');
      }
    }
    return *this;
  }

 private:
  static constexpr std::size_t kClosingBytes = 16;
  static constexpr std::string_view kDigits = "0123456789abcdef";

  void put(char byte) {
    if (size_ < kCapacity) bytes_[size_++] = byte;
  }

  template <class Number>
  FixedText& add_integer(Number number, int base) {
    std::array<char, 24> digits;
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number, base).ptr;
    return add({digits.data(), static_cast<std::size_t>(end - digits.data())});
  }

  std::array<char, kCapacity> bytes_{};
  std::size_t size_ = 0;
};

}  // namespace distrun

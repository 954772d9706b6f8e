#include "evidence/python/python_stacks.h"

#include <algorithm>
#include <optional>
#include <string>

namespace distrun {

namespace {

constexpr int kThreadsMax = 1000, kInterpretersMax = 16, kFramesMax = 256;
constexpr std::uint64_t kTextMax = 1000, kTableMax = 1 << 20;
// Since 3.14, the lowest bits of references are flags.
constexpr std::uint64_t kMarks = 7;
// Frames with higher owners belong to the interpreter itself.
constexpr int kOwnersOfPython = 3;

void append_utf8(std::string& text, std::uint32_t code) {
  const auto put = [&](std::uint32_t byte) { text += static_cast<char>(byte); };
  if (code < 0x80) return put(code);
  if (code < 0x800) {
    put(0xC0 | code >> 6);
  } else {
    if (code < 0x10000) {
      put(0xE0 | code >> 12);
    } else {
      put(0xF0 | (code >> 18 & 7));
      put(0x80 | (code >> 12 & 63));
    }
    put(0x80 | (code >> 6 & 63));
  }
  put(0x80 | (code & 63));
}

class Reader {
 public:
  Reader(const ReadMemory& read, const PythonLayout& layout) : read_(read), at_(layout) {}

  std::vector<Frame> frames_of(std::uint64_t thread) const {
    std::vector<Frame> frames;
    const std::uint64_t holder = at_.cframe ? pointer(thread + *at_.cframe) : thread;
    if (holder == 0) return frames;
    std::uint64_t frame = pointer(holder + at_.current_frame);
    for (int i = 0; i < kFramesMax && frame != 0; ++i) {
      if (auto found = frame_at(frame)) frames.push_back(std::move(*found));
      frame = pointer(frame + at_.previous);
    }
    std::reverse(frames.begin(), frames.end());
    return frames;
  }

  // 0 if it cannot be read, like a null pointer.
  std::uint64_t pointer(std::uint64_t address) const {
    return read_value<std::uint64_t>(read_, address).value_or(0);
  }

 private:
  std::optional<Frame> frame_at(std::uint64_t frame) const {
    if (at_.owner) {
      const auto owner = read_value<std::int8_t>(read_, frame + *at_.owner);
      if (!owner || *owner < 0 || *owner >= kOwnersOfPython) return std::nullopt;
    }
    const std::uint64_t code = pointer(frame + at_.code) & ~kMarks;
    if (code == 0) return std::nullopt;
    Frame found;
    found.function = text(pointer(code + at_.name));
    found.source = text(pointer(code + at_.filename));
    if (found.function.empty() || found.source.empty()) return std::nullopt;
    found.line = line(frame, code);
    return found;
  }

  int line(std::uint64_t frame, std::uint64_t code) const {
    const auto first = read_value<std::int32_t>(read_, code + at_.first_line);
    const auto table = bytes(pointer(code + at_.line_table));
    if (!first || table.empty()) return 0;
    std::int64_t offset = 0;
    if (at_.instructions) {
      const std::uint64_t begin = code + *at_.instructions;
      offset = static_cast<std::int64_t>(pointer(frame + at_.instruction) - begin);
    } else {
      offset =
          2 * std::int64_t{read_value<std::int32_t>(read_, frame + at_.instruction).value_or(0)};
    }
    const int found = line_of(at_.lines, table, *first, offset);
    return found > 0 ? found : *first;
  }

  std::vector<std::uint8_t> bytes(std::uint64_t object) const {
    if (object == 0) return {};
    const auto size = pointer(object + at_.bytes_size);
    if (size > kTableMax) return {};
    std::vector<std::uint8_t> value(size);
    if (!read_(object + at_.bytes_value, value.data(), value.size())) return {};
    return value;
  }

  // Strings are compact: a head, then characters of 1, 2 or 4 bytes.
  std::string text(std::uint64_t object) const {
    if (object == 0) return "";
    const auto state = read_value<std::uint32_t>(read_, object + at_.state);
    const std::uint64_t length = std::min(pointer(object + at_.length), kTextMax);
    if (!state) return "";
    const auto [width, ascii] = kind_of(*state);
    if (width == 0) return "";
    const std::uint64_t begin = object + (ascii ? at_.ascii_bytes : at_.compact_bytes);
    std::vector<std::uint8_t> raw(length * width);
    if (!read_(begin, raw.data(), raw.size())) return "";
    std::string value;
    for (std::size_t i = 0; i < raw.size(); i += width) {
      std::uint32_t code = 0;
      for (std::size_t byte = 0; byte < width; ++byte) {
        code |= std::uint32_t{raw[i + byte]} << 8 * byte;
      }
      append_utf8(value, code);
    }
    return value;
  }

  // The bits after `interned`: `kind`, `compact`, `ascii`.
  struct Kind {
    std::size_t width;
    bool ascii;
  };
  Kind kind_of(std::uint32_t state) const {
    const std::uint32_t rest = state >> at_.interned_bits;
    const std::uint32_t width = rest & 7;
    const bool compact = (rest >> 3 & 1) != 0, ascii = (rest >> 4 & 1) != 0;
    if (!compact || (width != 1 && width != 2 && width != 4)) return {0, false};
    return {width, ascii};
  }

  const ReadMemory& read_;
  const PythonLayout& at_;
};

}  // namespace

std::map<std::uint64_t, std::vector<Frame>> python_stacks(const ReadMemory& read,
                                                          std::uint64_t runtime,
                                                          const PythonLayout& layout) {
  const Reader reader(read, layout);
  std::map<std::uint64_t, std::vector<Frame>> stacks;
  int threads = 0;
  std::uint64_t interpreter = reader.pointer(runtime + layout.interpreters_head);
  for (int i = 0; i < kInterpretersMax && interpreter != 0; ++i) {
    std::uint64_t thread = reader.pointer(interpreter + layout.threads_head);
    for (; threads < kThreadsMax && thread != 0; ++threads) {
      const std::uint64_t id = reader.pointer(thread + layout.thread_id);
      if (id != 0) stacks[id] = reader.frames_of(thread);
      thread = reader.pointer(thread + layout.thread_next);
    }
    interpreter = reader.pointer(interpreter + layout.interpreter_next);
  }
  return stacks;
}

}  // namespace distrun

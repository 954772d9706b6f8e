#include "recording/recording.h"

#include <algorithm>
#include <array>
#include <memory>

#include <nlohmann/json.hpp>

#include "common/units.h"
#include "recording/zip_file.h"

namespace distrun {

namespace {

constexpr std::size_t kFactsBytesMax = 16 * kMiB;  // The ids of all tests that failed.
constexpr std::size_t kLineBytesMax = 1 * kKiB;    // Of output.jsonl.

// The lines of a member.
class MemberLines {
 public:
  explicit MemberLines(ZipMember& member) : member_(member) {}

  // The next line, without its newline; nullopt at the end.
  Result<std::optional<std::string_view>> next() {
    while (true) {
      const auto end = text_.find('\n', at_);
      if (end != text_.npos) {
        const auto line = std::string_view(text_).substr(at_, end - at_);
        at_ = end + 1;
        return std::optional(line);
      }
      text_.erase(0, std::exchange(at_, 0));
      if (text_.size() > kLineBytesMax) return Error{ErrorKind::kInvalidArgument, "a long line"};
      std::array<char, 16 * kKiB> buffer;
      const auto size = member_.read(buffer);
      if (!size) return size.error();
      if (*size == 0 && !text_.empty()) return Error{ErrorKind::kInvalidArgument, "a cut line"};
      if (*size == 0) return std::optional<std::string_view>();
      text_.append(buffer.data(), *size);
    }
  }

 private:
  ZipMember& member_;
  std::string text_;
  std::size_t at_ = 0;
};

// A line of output.jsonl.
struct Write {
  Printed to = Printed::kStdout;
  std::size_t bytes = 0;
};

std::optional<Write> parse_write(std::string_view line) {
  try {
    const auto all = nlohmann::json::parse(line);
    const auto to = all.at("to").get<std::string>();
    if (to != "stdout" && to != "stderr") return std::nullopt;
    if (!all.at("bytes").is_number_unsigned()) return std::nullopt;
    return Write{.to = to == "stdout" ? Printed::kStdout : Printed::kStderr,
                 .bytes = all["bytes"].get<std::size_t>()};
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

}  // namespace

Result<Recording> Recording::open(const std::string& path) {
  auto text = read_zip_member(path, "recording.json", kFactsBytesMax);
  if (!text) return text.error();
  if (!*text) {
    return Error{ErrorKind::kInvalidArgument, path + ": is not a recording of distrun"};
  }
  auto facts = parse_recording_json(**text);
  if (!facts) return facts.error().with_context(path);
  return Recording(path, std::move(*facts));
}

Result<void> Recording::print(
    const std::function<Result<void>(Printed to, std::string_view bytes)>& to) const {
  const auto damaged = [this](std::string_view member) {
    return Error{ErrorKind::kInvalidArgument, path_ + ": is damaged, in " + std::string(member)};
  };
  const auto member = [&](const char* name) -> Result<std::unique_ptr<ZipMember>> {
    auto opened = ZipMember::open(path_, name);
    if (opened && !*opened) return damaged(name);  // The writer makes all three.
    return opened;
  };
  auto order = member("output.jsonl");
  if (!order) return order.error();
  std::array<std::unique_ptr<ZipMember>, 2> streams;
  for (const Printed stream : {Printed::kStdout, Printed::kStderr}) {
    auto opened = member(stream == Printed::kStdout ? "stdout" : "stderr");
    if (!opened) return opened.error();
    streams[stream == Printed::kStdout ? 0 : 1] = std::move(*opened);
  }
  MemberLines lines(**order);
  std::string buffer(64 * kKiB, '\0');
  while (true) {
    const auto line = lines.next();
    if (!line) return damaged("output.jsonl");
    if (!*line) break;
    const auto write = parse_write(**line);
    if (!write) return damaged("output.jsonl");
    ZipMember& stream = *streams[write->to == Printed::kStdout ? 0 : 1];
    for (std::size_t left = write->bytes; left > 0;) {
      const auto size = stream.read({buffer.data(), std::min(left, buffer.size())});
      if (!size) return size.error();
      if (*size == 0) return damaged("output.jsonl");
      if (auto shown = to(write->to, {buffer.data(), *size}); !shown) return shown;
      left -= *size;
    }
  }
  for (const auto& stream : streams) {  // At the end, the checksum is compared.
    const auto size = stream->read({buffer.data(), 1});
    if (!size) return size.error();
    if (*size > 0) return damaged("output.jsonl");
  }
  return {};
}

}  // namespace distrun

#include "launcher/report/digest_file.h"

#include <variant>

#include <fmt/format.h>

#include "common/os/whole_file.h"
#include "common/units.h"

namespace distrun {

Result<DigestFile> DigestFile::open(const std::string& path) {
  auto file = LineFile::append("--save-digests", path);
  if (!file) return file.error();
  if (const auto locked = file->lock(); !locked) return locked.error();
  return DigestFile(path, std::move(*file));
}

void DigestFile::happened(const RunEvent& event, int world_size) {
  if (!std::holds_alternative<AttemptStarted>(event)) return;
  file_.clear();
  bytes_ = collectives_ = left_out_ = 0;
  file_.write(recorded_header(world_size));
}

void DigestFile::add(const CollectiveOfRanks& all) {
  std::string lines;
  for (const auto& [rank, operation] : all.by_rank) {
    lines += (lines.empty() ? "" : "\n") + recorded_line(rank, operation);
  }
  if (bytes_ + lines.size() > kBytesMax - kMiB) {  // The header needs some.
    ++left_out_;
    return;
  }
  bytes_ += lines.size() + 1;
  const Operation& any = all.any();
  if (any.input_digest || any.output_digests) ++collectives_;
  file_.write(lines);
}

std::optional<Error> DigestFile::finish() {
  if (auto lost = file_.finish()) return lost;
  if (left_out_ > 0) {
    return Error{
        ErrorKind::kSystem,
        fmt::format("{}: the file has reached its limit of {} MiB; {} collectives are left "
                    "out",
                    name_, kBytesMax / kMiB, left_out_)};
  }
  if (collectives_ > 0) return std::nullopt;
  return Error{
      ErrorKind::kSystem,
      name_ + ": no collective was recorded; docs/collectives.md says which ones distrun sees"};
}

Result<RecordedDigests> read_digests(const std::string& path, int world_size) {
  const std::string name = "--compare-digests " + path;
  const auto fail = [&name](const std::string& message) {
    return Error{ErrorKind::kInvalidArgument, name + ": " + message};
  };
  const auto text = read_whole_file(path, DigestFile::kBytesMax);
  if (!text) {  // It names the path.
    return Error{ErrorKind::kInvalidArgument, "--compare-digests " + text.error().message};
  }
  if (!*text) return fail("no such file; a run with --save-digests writes it");
  auto recorded = RecordedDigests::read(**text);
  if (!recorded) return fail(recorded.error().message);
  if (world_size != 0 && recorded->world_size() != world_size) {
    return fail(fmt::format("the recorded run had {} ranks, and this run has {}; start {} ranks",
                            recorded->world_size(), world_size, recorded->world_size()));
  }
  return recorded;
}

}  // namespace distrun

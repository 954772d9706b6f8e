#include "launcher/report/digest_file.h"

#include <variant>

#include <fmt/format.h>

#include "common/os/whole_file.h"
#include "common/units.h"

namespace distrun {

namespace {

constexpr std::size_t kFileBytesMax = 1024 * kMiB;  // It is read into memory.

}  // namespace

Result<DigestFile> DigestFile::open(const std::string& path) {
  auto file = LineFile::append("--save-digests", path);
  if (!file) return file.error();
  return DigestFile(std::move(*file));
}

void DigestFile::happened(const RunEvent& event, int world_size) {
  if (!std::holds_alternative<AttemptStarted>(event)) return;
  file_.clear();
  file_.write(recorded_header(world_size));
}

void DigestFile::add(const CollectiveOfRanks& all) {
  for (const auto& [rank, operation] : all.by_rank) file_.write(recorded_line(rank, operation));
}

Result<RecordedDigests> read_digests(const std::string& path, int world_size) {
  const std::string name = "--compare-digests " + path;
  const auto fail = [&name](const std::string& message) {
    return Error{ErrorKind::kInvalidArgument, name + ": " + message};
  };
  const auto text = read_whole_file(path, kFileBytesMax);
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

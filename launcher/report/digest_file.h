// DigestFile writes `--save-digests FILE`, and read_digests() reads it for `--compare-digests
// FILE`.
//
//     auto file = DigestFile::open("good.digests");
//     context.on_event = [&](const RunEvent& event) { file->happened(event, world_size); … };
//     context.on_collective = [&](const CollectiveOfRanks& all) { file->add(all); };
//     if (auto lost = file->finish()) … lost->message …
//
//     auto recorded = read_digests("good.digests", world_size);
//     if (!recorded) return recorded.error();   // "--compare-digests good.digests: line 3: …"
//
// The file has the lines of evidence/operations/recorded_digests.h, for the ranks of all nodes and
// for the last attempt.  As LineFile otherwise.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "common/units.h"
#include "distrun/result.h"
#include "evidence/operations/collective_table.h"
#include "evidence/operations/recorded_digests.h"
#include "launcher/outcome/run_event.h"
#include "launcher/report/line_file.h"

namespace distrun {

class DigestFile {
 public:
  // Of one file; read_digests() reads no more.
  static constexpr std::size_t kBytesMax = 1024 * kMiB;

  // Fails with kInvalidArgument if the file cannot be opened, or if another run writes to it.
  static Result<DigestFile> open(const std::string& path);

  // Starts the file again with each attempt.
  void happened(const RunEvent& event, int world_size);

  // Does not block.
  void add(const CollectiveOfRanks& all);

  // As LineFile::finish(). Also reports if nothing was recorded, or not everything.
  std::optional<Error> finish();

 private:
  DigestFile(const std::string& path, LineFile file)
      : name_("--save-digests " + path), file_(std::move(file)) {}

  std::string name_;
  LineFile file_;
  std::size_t bytes_ = 0, collectives_ = 0, left_out_ = 0;
};

// Fails with kInvalidArgument if there is no such file, or if it is of a run with another number of
// ranks. `world_size` 0: not yet known.
Result<RecordedDigests> read_digests(const std::string& path, int world_size);

}  // namespace distrun

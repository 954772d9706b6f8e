// TerminationLog is the file in which a container says why it ended. Kubernetes shows it in
// `kubectl describe pod`.
//
//     const TerminationLog log(path);               // "/dev/termination-log"
//     const auto written = log.write("distrun: rank 1 failed: exit code 3\n  local rank …");
//     if (!written) …                               // "write /dev/termination-log: no space left
//     …"
//
// The file belongs to Kubernetes: it exists before the run, and is a mount that cannot be replaced.
// So distrun writes into it, and never creates it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "common/os/environment.h"
#include "distrun/result.h"

namespace distrun {

// The first lines of `text` that Kubernetes accepts, which is 4096 bytes, or else the beginning of
// the first line. Pure.
std::string_view termination_message(std::string_view text);

// The default of --termination-log: a file in a pod of Kubernetes; empty elsewhere, and in a worker
// of an outer run, which writes the file itself. Pure.
std::string default_termination_log(const Environment& environment);

class TerminationLog {
 public:
  // Empty: no file.
  explicit TerminationLog(std::string path) : path_(std::move(path)) {}

  bool exists() const { return !path_.empty(); }

  // Replaces the text of the file. Does nothing if the file does not exist. Never blocks.
  Result<void> write(std::string_view text) const;

 private:
  std::string path_;
};

}  // namespace distrun

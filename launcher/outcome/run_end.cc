#include "launcher/outcome/run_end.h"

#include <csignal>

#include <fmt/format.h>

namespace distrun {

int exit_status(const RunEnd& run_end) {
  if (run_end.verdict) return run_end.verdict->status;
  switch (run_end.cause) {
    case RunEnd::Cause::kSucceeded:
      return 0;
    case RunEnd::Cause::kWorkerFailed: {
      const auto culprit = static_cast<std::size_t>(run_end.culprit->value());
      return exit_status(*run_end.workers[culprit].end);
    }
    case RunEnd::Cause::kSpawnFailed:
    case RunEnd::Cause::kNotJoined:
      return exit_status(*run_end.error);
    case RunEnd::Cause::kInterrupted:
      return 128 + run_end.signal;
    case RunEnd::Cause::kTimedOut:
      return kExitTimedOut;
    case RunEnd::Cause::kHung:
      return kExitHung;
    case RunEnd::Cause::kOutputLost:
      return kExitInternal;
    case RunEnd::Cause::kGuardLost:
      return 128 + SIGKILL;
    case RunEnd::Cause::kOtherNode:  // The verdict has the status.
      break;
  }
  return kExitInternal;
}

std::string no_progress_text(std::chrono::milliseconds limit, std::string_view where) {
  return fmt::format("no progress{} for {:g} s (--hang-after)", where,
                     std::chrono::duration<double>(limit).count());
}

int exit_status(const Error& error) {
  switch (error.kind) {
    case ErrorKind::kInvalidArgument:
      return kExitUsage;
    case ErrorKind::kNotFound:
      return kExitNotFound;
    case ErrorKind::kNotExecutable:
      return kExitNotExecutable;
    case ErrorKind::kAddressInUse:
    case ErrorKind::kAddressNotLocal:
    case ErrorKind::kProtocol:
    case ErrorKind::kTimedOut:
    case ErrorKind::kSystem:
      break;
  }
  return kExitInternal;
}

}  // namespace distrun

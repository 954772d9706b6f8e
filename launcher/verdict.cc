#include "launcher/verdict.h"

namespace distrun {

int exit_status(const Verdict& verdict) {
  switch (verdict.cause) {
    case Verdict::Cause::kSucceeded:
      return 0;
    case Verdict::Cause::kWorkerFailed: {
      const auto culprit = static_cast<std::size_t>(verdict.culprit->value());
      return exit_status(*verdict.workers[culprit].end);
    }
    case Verdict::Cause::kSpawnFailed:
      return exit_status(*verdict.error);
    case Verdict::Cause::kInterrupted:
      return 128 + verdict.signal;
    case Verdict::Cause::kTimedOut:
      return kExitTimedOut;
    case Verdict::Cause::kOutputLost:
      return kExitInternal;
  }
  return kExitInternal;
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
    case ErrorKind::kProtocol:
    case ErrorKind::kSystem:
      break;
  }
  return kExitInternal;
}

}  // namespace distrun

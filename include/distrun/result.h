// Result and Error: how an operating error (port taken, peer gone, file not
// there) is returned.  A bug is not an Error: it is a failed assertion.
//
//     Result<Endpoint> parse_endpoint(std::string_view text);
//
//     auto endpoint = parse_endpoint(text);
//     if (!endpoint) return endpoint.error().with_context("--rdzv-endpoint");
//     connect(*endpoint);
//
// A message is a fragment in lower case that names the object and gains context
// on the left: "launch rank 3: exec ./worker: no such file or directory".  It
// says what to do where that is known.
#pragma once

#if __cplusplus < 202002L
#error "distrun needs C++20: compile with -std=c++20"
#endif

#include <cerrno>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <boost/system/result.hpp>

namespace distrun {

// What a caller may want to tell apart; everything else is in the message.
enum class ErrorKind {
  kInvalidArgument,  // The user asked for something that makes no sense.
  kNotFound,         // A program or file is not there.
  kNotExecutable,    // A program is there and cannot be run.
  kAddressInUse,     // Another process has the port.
  kProtocol,         // A peer sent what the protocol does not allow.
  kTimedOut,         // What was waited for did not come in time.
  kSystem,           // A system call failed otherwise.
};

struct Error {
  ErrorKind kind = ErrorKind::kSystem;
  std::string message;

  // The same error, seen from one level up.
  [[nodiscard]] Error with_context(std::string_view context) const {
    return {kind, std::string(context) + ": " + message};
  }

  // For a system call that has just failed with `error_number`: "WHAT: no such file or directory".
  [[nodiscard]] static Error from_errno(std::string_view what, int error_number = errno) {
    std::string reason = std::generic_category().message(error_number);
    if (!reason.empty() && reason[0] >= 'A' && reason[0] <= 'Z') reason[0] += 'a' - 'A';
    return {ErrorKind::kSystem, std::string(what) + ": " + reason};
  }
};

template <class T>
using Result = boost::system::result<T, Error>;

// What `result.value()` does for an error.  Only tests, examples and benches call
// value() without having looked; code returns the error instead.
[[noreturn]] inline void throw_exception_from_error(const Error& error,
                                                    const boost::source_location&) {
  throw std::runtime_error(error.message);
}

}  // namespace distrun

// Result and Error return operating errors: port taken, peer gone, file missing.  A
// programming error is not returned: it fails an assertion.
//
//     Result<Endpoint> parse_endpoint(std::string_view text);
//
//     auto endpoint = parse_endpoint(text);
//     if (!endpoint) return endpoint.error().with_context("--rdzv-endpoint");
//     connect(*endpoint);
//
// A message is not a full sentence.  It begins in lower case, names the file, host or argument
// concerned, and says what to do if this is known.  Callers put their context before it, with
// with_context(): "launch rank 3: exec ./worker: no such file or directory".
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

// The kinds of errors that callers may handle differently.
enum class ErrorKind {
  kInvalidArgument,  // An argument is invalid.
  kNotFound,         // A program or file does not exist.
  kNotExecutable,    // A program exists but cannot be run.
  kAddressInUse,     // Another process uses the port.
  kAddressNotLocal,  // This machine does not have the address.
  kProtocol,         // A peer violated the protocol.
  kTimedOut,         // A wait timed out.
  kSystem,           // A system call failed in another way.
};

// An operating error.
struct Error {
  ErrorKind kind = ErrorKind::kSystem;  // For callers.
  std::string message;                  // For users.

  // Returns the error with "CONTEXT: " before its message.
  [[nodiscard]] Error with_context(std::string_view context) const {
    return {kind, std::string(context) + ": " + message};
  }

  // Returns the error of a system call that just failed: "WHAT: no such file or directory".
  [[nodiscard]] static Error from_errno(std::string_view what, int error_number = errno) {
    std::string reason = std::generic_category().message(error_number);
    if (!reason.empty() && reason[0] >= 'A' && reason[0] <= 'Z') reason[0] += 'a' - 'A';
    return {ErrorKind::kSystem, std::string(what) + ": " + reason};
  }
};

// A T or an Error.
template <class T>
using Result = boost::system::result<T, Error>;

// Throws std::runtime_error with the error's message.  `result.value()` calls it if the result is
// an error.
[[noreturn]] inline void throw_exception_from_error(const Error& error,
                                                    const boost::source_location&) {
  throw std::runtime_error(error.message);
}

}  // namespace distrun

// Result is the return type of functions that can fail.  For example, a port is in use, a
// connection was lost, or a file does not exist.  A Result is a value or an Error.  For a
// programming error, a function does not return an Error.  An assertion fails instead.
//
//     Result<Endpoint> parse_endpoint(std::string_view text);
//
//     auto endpoint = parse_endpoint(text);
//     if (!endpoint) return endpoint.error().with_context("--rdzv-endpoint");
//     connect(*endpoint);
//
// The message of an Error is not a full sentence.  It starts in lower case and names the file, host
// or argument that caused the error.  If a remedy is known, the message states it.  Callers use
// with_context() to put their context before the message, as in "launch rank 3: exec ./worker: no
// such file or directory".
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

// The kind of an error, so that callers can handle some errors differently.
enum class ErrorKind {
  kInvalidArgument,  // An argument is invalid.
  kNotFound,         // A program or file does not exist.
  kNotExecutable,    // A program exists but cannot be executed.
  kAddressInUse,     // Another process uses the port.
  kAddressNotLocal,  // This machine does not have the address.
  kProtocol,         // The other side of a connection violated the protocol.
  kTimedOut,         // A wait timed out.
  kSystem,           // Any other error, such as a failed system call.
};

// An error that a function returns.
struct Error {
  ErrorKind kind = ErrorKind::kSystem;  // The kind of this error.
  std::string message;                  // The text to show to users.

  // Returns a copy of this error with "CONTEXT: " before the message, where CONTEXT is `context`.
  [[nodiscard]] Error with_context(std::string_view context) const {
    return {kind, std::string(context) + ": " + message};
  }

  // Returns the error of a system call that has just failed.  Its message is, for example, "WHAT:
  // no such file or directory", where WHAT is `what`.
  [[nodiscard]] static Error from_errno(std::string_view what, int error_number = errno) {
    std::string reason = std::generic_category().message(error_number);
    if (!reason.empty() && reason[0] >= 'A' && reason[0] <= 'Z') reason[0] += 'a' - 'A';
    return {ErrorKind::kSystem, std::string(what) + ": " + reason};
  }
};

// A value of type T, or an Error.
template <class T>
using Result = boost::system::result<T, Error>;

// Throws std::runtime_error with the error's message.  If a Result contains an Error,
// Result::value() calls this function.
[[noreturn]] inline void throw_exception_from_error(const Error& error,
                                                    const boost::source_location&) {
  throw std::runtime_error(error.message);
}

}  // namespace distrun

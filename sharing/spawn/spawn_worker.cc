#include "sharing/spawn/spawn_worker.h"

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <exception>
#include <iostream>
#include <string>
#include <typeinfo>
#include <utility>

#include <c10/util/Exception.h>
#include <cxxabi.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "common/os/packet_socket.h"
#include "common/text/demangle.h"
#include "sharing/spawn/registered_function.h"
#include "sharing/spawn/spawn_call.h"
#include "sharing/spawn/worker_message.h"

namespace distrun::internal {

namespace {

// No exception may leave this file: a fork would continue in a copy of the parent's code.
template <class Call>
void try_to(const Call& call) noexcept {
  try {
    call();
  } catch (...) {
    // The next steps must still run.
  }
}

// If the parent is gone, no process needs the message.
void tell(int control, const WorkerMessage& report) noexcept {
  try_to([&] { [[maybe_unused]] const auto sent = send_packet(control, to_packet(report), {}); });
}

// Runs no static destructors, because other threads may still use the objects. Flushes no other
// files, because a thread may hold a file's lock forever.
[[noreturn]] void end(int control, const WorkerMessage& report) noexcept {
  try_to([] { std::cout.flush(); });
  try_to([] { std::clog.flush(); });
  std::fflush(stdout);
  std::fflush(stderr);
  tell(control, report);
  ::_exit(std::holds_alternative<WorkerHasReturned>(report) ? 0 : 1);
}

// Describes the current exception; `text` is its what(), or null.
WorkerMessage raised(const char* text) noexcept {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  WorkerHasRaised report{.at = std::chrono::nanoseconds(now).count()};
  const std::type_info* const type = abi::__cxa_current_exception_type();
  try_to([&] { report.type = type == nullptr ? "an exception" : demangled_type(type->name()); });
  try_to([&] { report.text = text == nullptr ? "" : text; });
  return report;
}

WorkerMessage run(const std::function<void()>& function) noexcept {
  try {
    function();
    return WorkerHasReturned{};
  } catch (const c10::Error& error) {
    return raised(error.what_without_backtrace());
  } catch (const std::exception& error) {
    return raised(error.what());
  } catch (...) {
    return raised("its type has no what()");
  }
}

}  // namespace

void run_spawned(UniqueFd control) noexcept {
  open_standard_descriptors();
  ::prctl(PR_SET_NAME, ::program_invocation_short_name);  // Instead of "exe".
  tell(control.get(), WorkerHasBegun{});
  UniqueFd lifeline;
  end(control.get(), run([&] {
        auto received = receive_call(control.get());
        if (!received) ::_exit(1);
        lifeline = std::move(received->lifeline);
        die_with_parent(lifeline.get());
        SpawnCall call = received->unpack();
        registered_function(call.function).function()(call.index, call.arguments);
      }));
}

void run_forked(WorkerEnds ends, const std::function<void()>& function) noexcept {
  die_with_parent(ends.lifeline.get());
  tell(ends.control.get(), WorkerHasBegun{});
  end(ends.control.get(), run(function));
}

}  // namespace distrun::internal

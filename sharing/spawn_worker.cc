#include "sharing/spawn_worker.h"

#include <cerrno>
#include <cstdio>
#include <exception>
#include <iostream>
#include <string>
#include <typeinfo>
#include <utility>

#include <c10/util/Exception.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "common/demangle.h"
#include "common/packet_socket.h"
#include "sharing/spawn_call.h"
#include "sharing/worker_report.h"

namespace distrun::internal {

namespace {

// Where the parent is gone, so is the one who would want to know.
void tell(int control, const WorkerReport& report) {
  [[maybe_unused]] const auto sent = send_packet(control, to_packet(report), {});
}

// Static objects are left as they are: their destructors would run under threads that still work.
[[noreturn]] void end(int control, const WorkerReport& report) {
  std::cout.flush();
  std::clog.flush();
  std::fflush(nullptr);
  tell(control, report);
  ::_exit(std::holds_alternative<WorkerHasReturned>(report) ? 0 : 1);
}

WorkerReport run(const std::function<void()>& function) {
  try {
    function();
    return WorkerHasReturned{};
  } catch (const c10::Error& error) {
    return WorkerHasRaised{demangled_type(typeid(error).name()), error.what_without_backtrace()};
  } catch (const std::exception& error) {
    return WorkerHasRaised{demangled_type(typeid(error).name()), error.what()};
  } catch (...) {
    return WorkerHasRaised{"an exception", "it is of no type that has a what()"};
  }
}

}  // namespace

void run_spawned(UniqueFd control) {
  ::prctl(PR_SET_NAME, ::program_invocation_short_name);  // It would be "exe".
  tell(control.get(), WorkerHasBegun{});
  UniqueFd lifeline;
  end(control.get(), run([&] {
        auto received = receive_call(control.get());
        if (!received) ::_exit(1);
        lifeline = std::move(received->lifeline);
        hang_on(lifeline.get());
        SpawnCall call = received->unpack();
        registered_function(call.function).function()(call.index, call.arguments);
      }));
}

void run_forked(WorkerEnds ends, const std::function<void()>& function) {
  hang_on(ends.lifeline.get());
  tell(ends.control.get(), WorkerHasBegun{});
  end(ends.control.get(), run(function));
}

}  // namespace distrun::internal

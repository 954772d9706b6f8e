#include "launcher/test/run_program.h"

#include <array>
#include <chrono>
#include <stdexcept>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "common/os/unique_fd.h"
#include "launcher/plan/command.h"
#include "launcher/process/worker_process.h"

namespace distrun::testing {

namespace {

struct Capture {
  Capture() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("pipe");
    from.reset(ends[0]);
    to.reset(ends[1]);
  }

  // Reads what is available, and closes the pipe at its end. Returns whether it read anything.
  bool read(std::string& into) {
    std::array<char, 65536> buffer;
    const auto size = ::read(from.get(), buffer.data(), buffer.size());
    if (size > 0) {
      into.append(buffer.data(), static_cast<std::size_t>(size));
    } else {
      from.reset();
    }
    return size > 0;
  }

  UniqueFd from, to;
};

}  // namespace

ProgramResult run_program(const std::vector<std::string>& arguments,
                          const ProgramOptions& options) {
  Environment environment = Environment::from(environ);
  for (const auto& [name, value] : options.environment.variables()) environment.set(name, value);
  Capture out, err;
  const UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const auto process = spawn_process({.executable = find_program(arguments[0], environment).value(),
                                      .arguments = arguments,
                                      .environment = environment,
                                      .in = null.get(),
                                      .out = out.to.get(),
                                      .err = err.to.get()})
                           .value();
  out.to.reset();
  err.to.reset();

  ProgramResult result;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(options.timeout_s);
  bool running = true;
  while (running || out.from || err.from) {
    std::array<pollfd, 3> waits = {{{out.from.get(), POLLIN, 0},
                                    {err.from.get(), POLLIN, 0},
                                    {running ? process.pidfd.get() : -1, POLLIN, 0}}};
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0 ||
        ::poll(waits.data(), waits.size(), static_cast<int>(left.count())) == 0) {
      result.timed_out = true;
      signal_group(process, SIGKILL);
      while (!look_at_end(process)) ::poll(&waits[2], 1, -1);  // After SIGKILL this ends.
      break;
    }
    if (waits[0].revents != 0 && out.read(result.out) && options.on_output) {
      options.on_output(result.out, process.pid);
    }
    if (waits[1].revents != 0) err.read(result.err);
    if (waits[2].revents != 0) running = false;
  }
  result.end = look_at_end(process).value();
  end_group(process);
  return result;
}

}  // namespace distrun::testing

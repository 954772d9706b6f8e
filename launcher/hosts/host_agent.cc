#include "launcher/hosts/host_agent.h"

#include <array>
#include <csignal>
#include <cstdlib>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/steady_timer.hpp>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "common/os/host_name.h"
#include "common/os/proc.h"
#include "common/os/write_all.h"
#include "distrun/process_end.h"
#include "launcher/hosts/host_order.h"
#include "launcher/hosts/remote_shell.h"
#include "launcher/outcome/run_end.h"
#include "launcher/process/worker_process.h"

namespace distrun {

namespace asio = boost::asio;
using boost::system::error_code;

namespace {

constexpr const char* kConnectionEnded = "the connection to distrun has ended";

// Signals that come before the command handles them would kill it.
constexpr std::chrono::milliseconds kBetweenTries{10};
constexpr int kTriesMax = 500;

// Whether the process blocks, handles or ignores the signal.
bool is_prepared(pid_t pid, int signal) {
  std::istringstream status(proc_file(pid, "status"));
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with("SigBlk:") && !line.starts_with("SigIgn:") &&
        !line.starts_with("SigCgt:")) {
      continue;
    }
    const auto mask = std::strtoull(line.c_str() + line.find(':') + 1, nullptr, 16);
    if ((mask >> (signal - 1) & 1) != 0) return true;
  }
  return false;
}

class HostAgent {
 public:
  HostAgent() : in_(io_), silence_(io_), ended_(io_) {}

  int run() {
    ::signal(SIGPIPE, SIG_IGN);
    error_code error;
    in_.assign(::dup(STDIN_FILENO), error);
    if (error) {
      say("stdin: " + error.message());
      return kExitInternal;
    }
    // The shell may have left a line open.
    if (!write_all(STDOUT_FILENO, fmt::format("\n{}\n", kAgentReady))) return kExitInternal;
    wait_for_more();
    read_length();
    io_.run();
    return status_;
  }

 private:
  // Before the order, nothing runs, and the agent ends at once.
  void lost(const std::string& why) {
    is_lost_ = true;
    say(why + "; the run ends");  // Nobody may read it.
    if (command_.pid < 0) return io_.stop();
    signal_process(command_, SIGTERM);
    silence_.expires_after(end_max_);
    silence_.async_wait([this](error_code error) {
      // Its guards end the rest.
      if (!error) signal_process(command_, SIGKILL);
    });
  }

  void say(const std::string& text) {
    write_all(STDERR_FILENO, fmt::format("distrun: host {}: {}\n", host_name(), text));
  }

  void wait_for_more() {
    if (is_lost_) return;
    silence_.expires_after(kSilenceMax);
    silence_.async_wait([this](error_code error) {
      if (error) return;
      lost(fmt::format("nothing came from distrun for {} s", kSilenceMax.count()));
    });
  }

  void read_length() {
    bytes_.resize(kLengthBytes);
    asio::async_read(in_, asio::buffer(bytes_), [this](error_code error, std::size_t) {
      if (error) return lost(kConnectionEnded);
      const auto length = decode_length(bytes_);
      if (!length) return fail(length.error());
      wait_for_more();
      *length == 0 ? read_length() : read_order(*length);  // 0: kAlive, before the order.
    });
  }

  void read_order(std::size_t length) {
    bytes_.resize(length);
    asio::async_read(in_, asio::buffer(bytes_), [this](error_code error, std::size_t) {
      if (error) return lost(kConnectionEnded);
      auto order = decode_order(bytes_);
      if (!order) return fail(order.error());
      start(std::move(*order));
    });
  }

  void start(HostOrder order) {
    if (::chdir(order.folder.c_str()) != 0) {
      const std::string problem = Error::from_errno(order.folder).message;
      return fail({ErrorKind::kSystem,
                   fmt::format("{}; the folder in which you start distrun must exist on all hosts",
                               problem)});
    }
    const Environment of_this_host = Environment::from(::environ);
    Environment environment;
    for (const auto& [name, value] : of_this_host.variables()) {
      // Flags of the host's user would change this node only, or start the run again (PET_HOSTS).
      if (!name.starts_with("PET_")) environment.set(name, value);
    }
    end_max_ = order.end_max;
    for (const auto& [name, value] : order.environment.variables()) environment.set(name, value);
    std::vector<std::string> arguments = {"distrun", order.command};
    arguments.insert(arguments.end(), order.arguments.begin(), order.arguments.end());
    const UniqueFd nothing(::open("/dev/null", O_RDWR | O_CLOEXEC));
    if (!nothing) return fail(Error::from_errno("/dev/null"));
    auto command = spawn_process({.executable = "/proc/self/exe",
                                  .arguments = std::move(arguments),
                                  .environment = std::move(environment),
                                  .in = nothing.get()});
    if (!command) return fail(command.error());
    command_ = std::move(*command);
    ended_.assign(::dup(command_.pidfd.get()));
    ended_.async_wait(asio::posix::stream_descriptor::wait_read, [this](error_code error) {
      if (!error) end();
    });
    wait_for_more();
    read_controls();
  }

  void read_controls() {
    in_.async_read_some(asio::buffer(controls_), [this](error_code error, std::size_t size) {
      if (error == asio::error::operation_aborted) return;
      if (error) return lost(kConnectionEnded);
      wait_for_more();
      for (std::size_t at = 0; at < size; ++at) {
        if (controls_[at] != kAlive) signals_.push_back(controls_[at]);
      }
      pass_signals();
      read_controls();
    });
  }

  void pass_signals(int tries = 0) {
    while (!signals_.empty()) {
      const int signal = signals_.front();
      if (tries < kTriesMax && !is_prepared(command_.pid, signal)) {
        retry_.expires_after(kBetweenTries);
        return retry_.async_wait([this, tries](error_code error) {
          if (!error) pass_signals(tries + 1);
        });
      }
      signals_.erase(signals_.begin());
      signal_process(command_, signal);
    }
  }

  void end() {
    const auto how = look_at_end(command_);
    if (!how) return;
    status_ = exit_status(*how);
    end_group(command_);
    io_.stop();
  }

  void fail(const Error& error) {
    say(error.message);
    io_.stop();
  }

  asio::io_context io_{1};
  asio::posix::stream_descriptor in_;
  asio::steady_timer silence_;
  asio::posix::stream_descriptor ended_;  // Readable once the command has ended.
  WorkerProcess command_;
  std::string bytes_;
  std::array<char, 256> controls_{};
  std::vector<int> signals_;  // Not passed on yet.
  asio::steady_timer retry_{io_};
  std::chrono::milliseconds end_max_{};
  bool is_lost_ = false;
  int status_ = kExitInternal;
};

}  // namespace

int run_host_agent() { return HostAgent().run(); }

}  // namespace distrun

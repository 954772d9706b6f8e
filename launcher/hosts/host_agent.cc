#include "launcher/hosts/host_agent.h"

#include <array>
#include <csignal>
#include <string>
#include <utility>

#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/steady_timer.hpp>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "common/os/host_name.h"
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

class HostAgent {
 public:
  HostAgent() : in_(io_, ::dup(STDIN_FILENO)), silence_(io_), ended_(io_) {}

  int run() {
    ::signal(SIGPIPE, SIG_IGN);
    if (!write_all(STDOUT_FILENO, fmt::format("{}\n", kAgentReady))) return kExitInternal;
    wait_for_more();
    read_length();
    io_.run();
    return status_;
  }

 private:
  // Before the order, nothing runs, and the agent ends at once.
  void lost() {
    silence_.cancel();
    if (launch_.pid < 0) {
      io_.stop();
    } else {
      signal_process(launch_, SIGTERM);
    }
  }

  void wait_for_more() {
    silence_.expires_after(kSilenceMax);
    silence_.async_wait([this](error_code error) {
      if (!error) lost();
    });
  }

  void read_length() {
    bytes_.resize(kLengthBytes);
    asio::async_read(in_, asio::buffer(bytes_), [this](error_code error, std::size_t) {
      if (error) return lost();
      const auto length = decode_length(bytes_);
      if (!length) return fail(length.error());
      wait_for_more();
      *length == 0 ? read_length() : read_order(*length);  // 0: kAlive, before the order.
    });
  }

  void read_order(std::size_t length) {
    bytes_.resize(length);
    asio::async_read(in_, asio::buffer(bytes_), [this](error_code error, std::size_t) {
      if (error) return lost();
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
    Environment environment = Environment::from(::environ);
    for (const auto& [name, value] : order.environment.variables()) environment.set(name, value);
    std::vector<std::string> arguments = {"distrun", order.command};
    arguments.insert(arguments.end(), order.arguments.begin(), order.arguments.end());
    const UniqueFd nothing(::open("/dev/null", O_RDWR | O_CLOEXEC));
    auto launch = spawn_process({.executable = "/proc/self/exe",
                                 .arguments = std::move(arguments),
                                 .environment = std::move(environment),
                                 .in = nothing.get()});
    if (!launch) return fail(launch.error());
    launch_ = std::move(*launch);
    ended_.assign(::dup(launch_.pidfd.get()));
    ended_.async_wait(asio::posix::stream_descriptor::wait_read, [this](error_code error) {
      if (!error) end();
    });
    wait_for_more();
    read_controls();
  }

  void read_controls() {
    in_.async_read_some(asio::buffer(controls_), [this](error_code error, std::size_t size) {
      if (error == asio::error::operation_aborted) return;
      if (error) return lost();
      wait_for_more();
      for (std::size_t at = 0; at < size; ++at) {
        if (controls_[at] != kAlive) signal_process(launch_, controls_[at]);
      }
      read_controls();
    });
  }

  void end() {
    const auto how = look_at_end(launch_);
    if (!how) return;
    status_ = exit_status(*how);
    end_group(launch_);
    io_.stop();
  }

  void fail(const Error& error) {
    write_all(STDERR_FILENO, fmt::format("distrun: host {}: {}\n", host_name(), error.message));
    io_.stop();
  }

  asio::io_context io_{1};
  asio::posix::stream_descriptor in_;
  asio::steady_timer silence_;
  asio::posix::stream_descriptor ended_;  // Readable once the launch has ended.
  WorkerProcess launch_;
  std::string bytes_;
  std::array<char, 256> controls_{};
  int status_ = kExitInternal;
};

}  // namespace

int run_host_agent() { return HostAgent().run(); }

}  // namespace distrun

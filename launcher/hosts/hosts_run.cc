#include "launcher/hosts/hosts_run.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <fmt/format.h>
#include <unistd.h>

#include "launcher/hosts/host_agent.h"
#include "launcher/hosts/host_connection.h"
#include "launcher/hosts/hosts_end.h"
#include "launcher/hosts/own_program.h"
#include "launcher/hosts/remote_shell.h"
#include "launcher/output/output_sink.h"
#include "launcher/plan/command.h"
#include "launcher/process/worker_process.h"
#include "launcher/run/run_signals.h"

namespace distrun {

namespace asio = boost::asio;
using boost::system::error_code;
using std::chrono::seconds;

namespace {

constexpr seconds kReadyMax{60}, kCopyMax{600};
// A node that has not reported waits this long for the others, after --shutdown-timeout
// (docs/nodes.md), before it ends by itself.
constexpr seconds kEndsApart{90};
constexpr seconds kStopMax{10};

class HostsRunner {
 public:
  HostsRunner(const HostsRun& run, const LaunchOptions& options)
      : run_(run),
        options_(options),
        ends_(run.hosts.size()),
        signals_(io_, options, [this](auto meaning, int signal) { take_signal(meaning, signal); }) {
    for (std::size_t i = 0; i < ends_.size(); ++i) ends_[i].host = run_.hosts[i].destination;
  }

  Result<int> run(const std::string& ssh, const ProgramCopy& program,
                  const Environment& environment) {
    ::signal(SIGPIPE, SIG_IGN);
    sigset_t mask;
    ::pthread_sigmask(SIG_SETMASK, nullptr, &mask);
    signals_.begin(mask);
    connect(program);
    for (std::size_t i = 0; i < hosts_.size(); ++i) {
      auto started = hosts_[i]->start(ssh, environment);
      if (!started) return started.error();  // ssh dies with the descriptors of the others.
    }
    limit(deadline_, kReadyMax, [this] { ready_too_late(); });
    keep_alive();
    io_.run();
    if (error_) return *error_;
    return status_;
  }

 private:
  void connect(const ProgramCopy& program) {
    for (std::size_t i = 0; i < run_.hosts.size(); ++i) {
      hosts_.push_back(std::make_unique<HostConnection>(
          io_,
          HostConnection::Options{
              .command = ssh_command(run_.ssh, run_.hosts[i].destination, start_script(program)),
              .read_program = [this] { return program_bytes(); },
              .out = &out_,
              .err = &err_},
          HostConnection::Handlers{
              .on_copying = [this] { limit(deadline_, kCopyMax, [this] { ready_too_late(); }); },
              .on_ready = [this] { host_ready(); },
              .on_ended = [this, i](const ProcessEnd& how) { host_ended(i, how); },
              .on_problem = [this](const Error& error) { fail(error); }}));
    }
  }

  // Read once, however many hosts need it.
  Result<std::shared_ptr<const std::string>> program_bytes() {
    if (!program_) {
      auto read = read_own_program();
      if (!read) return read.error();
      program_ = std::move(*read);
    }
    return program_;
  }

  template <class Act>
  static void limit(asio::steady_timer& timer, std::chrono::milliseconds time, Act act) {
    timer.expires_after(time);
    timer.async_wait([act](error_code error) {
      if (!error) act();
    });
  }

  void keep_alive() {
    write_to_all(std::string(kAliveBytes));
    limit(alive_, kAliveEvery, [this] { keep_alive(); });
  }

  void write_to_all(const std::string& bytes) {
    for (auto& host : hosts_) {
      if (host->is_ready() && !host->has_ended()) host->write(bytes);
    }
  }

  void host_ready() {
    const bool all = std::all_of(hosts_.begin(), hosts_.end(),
                                 [](const auto& host) { return host->is_ready(); });
    if (!all || stops_) return;
    deadline_.cancel();
    ordered_ = true;
    for (std::size_t i = 0; i < hosts_.size(); ++i) hosts_[i]->write(encode(run_.orders[i]));
  }

  void ready_too_late() {
    for (std::size_t i = 0; i < hosts_.size(); ++i) {
      if (hosts_[i]->is_ready()) continue;
      return fail({ErrorKind::kSystem,
                   fmt::format("{}: distrun has not started there in time; try: ssh {} true",
                               ends_[i].host, ends_[i].host)});
    }
  }

  void host_ended(std::size_t i, const ProcessEnd& how) {
    if (!killed_) ends_[i].status = exit_status(how);
    if (!ordered_ && !stops_) {
      fail({ErrorKind::kSystem,
            fmt::format("{0}: ssh ended with {1} before distrun was ready there; try: ssh {0} true",
                        ends_[i].host, describe(how))});
    } else if (ordered_ && !stops_) {
      stops_ = true;
      limit(deadline_, options_.shutdown_timeout + kEndsApart, [this] { kill_the_rest(); });
    }
    const bool all = std::all_of(hosts_.begin(), hosts_.end(),
                                 [](const auto& host) { return host->has_ended(); });
    if (all) end();
  }

  void fail(const Error& error) {
    if (!error_) error_ = error;
    stop();
  }

  // Before the order nothing runs, and agents end at once.
  void stop() {
    stops_ = true;
    for (auto& host : hosts_) {
      if (!host->is_ready()) host->kill();
      host->close();
    }
    const std::chrono::milliseconds run_ends = options_.shutdown_timeout + kEndsApart;
    limit(deadline_, ordered_ ? run_ends : kStopMax, [this] { kill_the_rest(); });
  }

  void kill_the_rest() {
    killed_ = true;
    for (auto& host : hosts_) host->kill();
  }

  void take_signal(RunSignals::Meaning meaning, int signal) {
    using enum RunSignals::Meaning;
    if (meaning == kSuspend) return;  // The hosts would take silence for a lost connection.
    if (ended_ && meaning == kEnd) return io_.stop();
    if (ordered_) return write_to_all(control_byte(signal));
    if (meaning != kEnd) return;
    status_ = 128 + signal;
    interrupted_ = true;
    stop();
  }

  void console_broken(const char* name, int error_number) {
    if (error_number == EPIPE) {
      status_ = 128 + SIGPIPE;
      interrupted_ = true;
      return stop();
    }
    fail(Error::from_errno(name, error_number));
  }

  void end() {
    ended_ = true;
    deadline_.cancel();
    alive_.cancel();
    if (!interrupted_ && !error_) {
      const HostsEnd whole = hosts_end(ends_);
      status_ = whole.status;
      for (const std::string& host : whole.lost) {
        err_.append(fmt::format("distrun: the connection to {} is lost\n", host));
      }
    }
    out_.flush();
    err_.flush();
    out_.when_drained([this] { err_.when_drained([this] { io_.stop(); }); });
  }

  const HostsRun& run_;
  const LaunchOptions& options_;
  asio::io_context io_{1};
  OutputSink out_{io_, STDOUT_FILENO, [this](int error) { console_broken("stdout", error); }};
  OutputSink err_{io_, STDERR_FILENO, [this](int error) { console_broken("stderr", error); }};
  std::vector<HostEnd> ends_;
  RunSignals signals_;
  std::vector<std::unique_ptr<HostConnection>> hosts_;
  std::shared_ptr<const std::string> program_;
  asio::steady_timer deadline_{io_}, alive_{io_};
  bool ordered_ = false;      // The run may have started.
  bool stops_ = false;        // A host has ended, or must end.
  bool killed_ = false;       // Hosts that have not ended did not end in time.
  bool interrupted_ = false;  // status_ is set.
  bool ended_ = false;
  int status_ = 0;
  std::optional<Error> error_;
};

}  // namespace

Result<int> run_on_hosts(const HostsRun& run, const LaunchOptions& options,
                         const Environment& environment) {
  const auto ssh = find_program(run.ssh.front(), environment);
  if (!ssh) return ssh.error().with_context("--ssh");
  const auto program = own_program(run.version);
  if (!program) return program.error();
  allow_many_descriptors();
  return HostsRunner(run, options).run(*ssh, *program, environment);
}

}  // namespace distrun

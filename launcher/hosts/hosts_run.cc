#include "launcher/hosts/hosts_run.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <memory>
#include <optional>
#include <utility>
#include <variant>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>
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

constexpr seconds kReadyMax{60};
// How long after --shutdown-timeout a host may still run when another one has ended.
constexpr seconds kEndsApart{10};
// How long it may run after its connection is closed.
constexpr seconds kStopMax{10};
// The second one kills the workers, and the third one the connections.
constexpr int kEndSignalsMax = 3;

class HostsRunner {
 public:
  HostsRunner(const HostsRun& run, const LaunchOptions& options)
      : run_(run),
        options_(options),
        signals_(io_, options, [this](auto meaning, int signal) { take_signal(meaning, signal); }) {
    for (std::size_t i = 0; i < run_.hosts.size(); ++i) ready_timers_.emplace_back(io_);
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
      if (!started) return started.error();  // The agents of the others lose their stdin.
      expect_ready(i, kReadyMax);
    }
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
              .on_copying = [this, i] { expect_ready(i, kCopyMax); },
              .on_ready = [this, i] { host_ready(i); },
              .on_ended = [this, i](const ProcessEnd& how) { host_ended(i, how); },
              .on_problem = [this,
                             i](const Error& error) { fail(error.with_context(name_of(i))); }}));
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

  const std::string& name_of(std::size_t i) const { return run_.hosts[i].destination; }

  template <class Act>
  static void call_after(asio::steady_timer& timer, std::chrono::milliseconds time, Act act) {
    timer.expires_after(time);
    timer.async_wait([act](error_code error) {
      if (!error) act();
    });
  }

  void keep_alive() {
    write_to_all(std::string(kAliveBytes));
    call_after(alive_, kAliveEvery, [this] { keep_alive(); });
  }

  void write_to_all(const std::string& bytes) {
    for (auto& host : hosts_) {
      if (host->is_ready() && !host->has_ended()) host->write(bytes);
    }
  }

  void expect_ready(std::size_t i, std::chrono::milliseconds time) {
    if (is_ending_) return;
    call_after(ready_timers_[i], time, [this, i] {
      fail({ErrorKind::kSystem,
            fmt::format("{}: distrun has not started there in time{}", name_of(i), advice(i))});
    });
  }

  // A command that shows what is wrong with the connection.
  std::string advice(std::size_t i) const {
    return fmt::format("; try: {} {} true", fmt::join(run_.ssh, " "), name_of(i));
  }

  void host_ready(std::size_t i) {
    ready_timers_[i].cancel();
    const bool all = std::all_of(hosts_.begin(), hosts_.end(),
                                 [](const auto& host) { return host->is_ready(); });
    if (!all || is_ending_) return;
    ordered_ = true;
    for (std::size_t to = 0; to < hosts_.size(); ++to) hosts_[to]->write(encode(order_of(to)));
  }

  HostOrder order_of(std::size_t i) const {
    HostOrder order = run_.orders[i];
    order.end_max = options_.shutdown_timeout + kStopMax;
    return order;
  }

  void host_ended(std::size_t i, const ProcessEnd& how) {
    ready_timers_[i].cancel();
    const auto* exited = std::get_if<ExitedWith>(&how);
    if (!gave_up_)
      ends_.push_back({name_of(i), exited ? std::optional(exited->code) : std::nullopt});
    if (ordered_) {
      expect_the_end();
    } else if (!is_ending_) {
      const bool is_of_ssh = !exited || exited->code == kConnectionLost;
      fail(
          {ErrorKind::kSystem, fmt::format("{}: ssh ended with {} before distrun was ready there{}",
                                           name_of(i), describe(how), is_of_ssh ? advice(i) : "")});
    }
    const bool all = std::all_of(hosts_.begin(), hosts_.end(),
                                 [](const auto& host) { return host->has_ended(); });
    if (all) end();
  }

  // The run ends, or has ended on one host.
  void expect_the_end() {
    if (!std::exchange(is_ending_, true)) wait_for_the_end();
  }

  void wait_for_the_end() {
    call_after(deadline_, options_.shutdown_timeout + kEndsApart, [this] {
      const bool waits_for_reader = out_.is_full() || err_.is_full();
      waits_for_reader ? wait_for_the_end() : stop();
    });
  }

  void fail(const Error& error) {
    if (!error_) error_ = error;
    stop();
  }

  // Before the order, nothing runs, and agents end at once. Then, they end their workers.
  void stop() {
    is_ending_ = true;
    gave_up_ = gave_up_ || ordered_;
    for (auto& host : hosts_) {
      if (!host->is_ready()) host->kill();
      host->close();
    }
    const std::chrono::milliseconds workers_end = options_.shutdown_timeout + 2 * kStopMax;
    call_after(deadline_, ordered_ ? workers_end : kStopMax, [this] { kill_the_rest(); });
  }

  void kill_the_rest() {
    gave_up_ = true;
    for (auto& host : hosts_) host->kill();
  }

  void take_signal(RunSignals::Meaning meaning, int signal) {
    using enum RunSignals::Meaning;
    if (meaning == kSuspend) return;  // The hosts would take silence for a lost connection.
    if (ended_ && meaning == kEnd) return io_.stop();
    if (ordered_) {
      if (meaning == kEnd) signal_ = signal;
      write_to_all(control_byte(signal));
      if (meaning == kEnd && ++end_signals_ >= kEndSignalsMax) return kill_the_rest();
      if (meaning == kEnd) expect_the_end();
      return;
    }
    if (meaning != kEnd) return;
    status_ = 128 + signal;
    interrupted_ = true;
    stop();
  }

  void console_broken(const char* name, int error_number) {
    if (error_number == EBADF) return;  // The user has closed it.
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
    if (!interrupted_ && !error_) take_ends();
    out_.flush();
    err_.flush();
    out_.when_drained([this] { err_.when_drained([this] { io_.stop(); }); });
  }

  void take_ends() {
    const HostsEnd whole = hosts_end(ends_);
    status_ = ends_.empty() && signal_ != 0 ? 128 + signal_ : whole.status;
    for (const std::string& host : whole.lost) {
      err_.append(fmt::format("distrun: the connection to {} is lost\n", host));
    }
    if (ends_.size() < hosts_.size()) {
      err_.append(fmt::format("distrun: {} of {} hosts did not end in time\n",
                              hosts_.size() - ends_.size(), hosts_.size()));
    }
  }

  const HostsRun& run_;
  const LaunchOptions& options_;
  asio::io_context io_{1};
  OutputSink out_{io_, STDOUT_FILENO, [this](int error) { console_broken("stdout", error); }};
  OutputSink err_{io_, STDERR_FILENO, [this](int error) { console_broken("stderr", error); }};
  std::vector<HostEnd> ends_;  // In their order.
  RunSignals signals_;
  std::vector<std::unique_ptr<HostConnection>> hosts_;
  std::shared_ptr<const std::string> program_;
  std::vector<asio::steady_timer> ready_timers_;  // Of the hosts that are not ready yet.
  asio::steady_timer deadline_{io_}, alive_{io_};
  int end_signals_ = 0, signal_ = 0;  // How many; the last.
  bool ordered_ = false;              // The run may have started.
  bool is_ending_ = false;            // A host has ended, or must end.
  bool gave_up_ = false;              // Hosts that have not ended did not end in time.
  bool interrupted_ = false;          // status_ is set.
  bool ended_ = false;
  int status_ = 0;
  std::optional<Error> error_;
};

}  // namespace

Result<int> run_on_hosts(const HostsRun& run, const LaunchOptions& options,
                         const Environment& environment) {
  const auto ssh = find_program(run.ssh.front(), environment);
  if (!ssh) return ssh.error().with_context("--ssh");
  const auto program = own_program();
  if (!program) return program.error();
  allow_many_descriptors();
  return HostsRunner(run, options).run(*ssh, *program, environment);
}

}  // namespace distrun

#include "launcher/driver.h"

#include <cerrno>
#include <csignal>
#include <deque>
#include <filesystem>
#include <optional>
#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "common/unique_fd.h"
#include "launcher/output_relay.h"
#include "launcher/output_sink.h"
#include "launcher/private_folder.h"
#include "launcher/store_file.h"
#include "launcher/supervisor.h"
#include "launcher/worker_environment.h"
#include "launcher/worker_process.h"
#include "store/server.h"

namespace distrun {

namespace asio = boost::asio;
using asio::posix::stream_descriptor;
using boost::system::error_code;

namespace {

struct Worker {
  SpawnedProcess process;
  UniqueFd out_pipe, err_pipe;            // Until it is watched.
  std::optional<stream_descriptor> exit;  // Its pidfd.
  std::optional<OutputRelay> out, err;
  int open_outputs = 0;
  bool reaped = false;
  TimePoint started;
};

class Driver {
 public:
  Driver(const LaunchPlan& plan, const LaunchStreams& streams)
      : plan_(plan),
        streams_(streams),
        out_(io_, streams.out, [this](int error) { output_lost(error); }),
        err_(io_, streams.err, [this](int error) { output_lost(error); }),
        supervisor_({.workers = static_cast<int>(plan.workers.size()),
                     .shutdown_timeout = plan.options.shutdown_timeout,
                     .timeout = plan.options.timeout}),
        workers_(plan.workers.size()) {
    report_.workers.resize(plan.workers.size());
  }

  // Where an exception ends the run, nothing of it is to stay behind.
  ~Driver() {
    for (const Worker& worker : workers_) {
      if (worker.process.pid > 0 && !worker.reaped) signal_group(worker.process, SIGKILL);
    }
  }
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  Result<RunReport> run() {
    catch_signals();  // Before there is anything that a signal could leave behind.
    auto folder = PrivateFolder::make(plan_.environment);
    if (!folder) return folder.error();
    place_.error_folder = folder->path();
    if (const auto opened = open_store(); !opened) return opened.error();
    null_.reset(::open("/dev/null", O_RDWR | O_CLOEXEC));
    if (!null_) return Error::from_errno("open /dev/null");
    wait_for_signal();
    perform(supervisor_.start(now()));
    io_.run();
    if (!finished_) return Error{ErrorKind::kSystem, "bug: the event loop ended before the run"};
    const bool shared = ::isatty(streams_.out) != 0 && ::isatty(streams_.err) != 0;
    report_.line_open = err_.line_is_open() || (shared && out_.line_is_open());
    return std::move(report_);
  }

 private:
  static TimePoint now() { return std::chrono::steady_clock::now(); }

  Worker& at(LocalRank worker) { return workers_[static_cast<std::size_t>(worker.value())]; }

  Result<void> open_store() {
    const LaunchOptions& options = plan_.options;
    if (options.store.kind == StoreChoice::Kind::kFile) {
      auto file = StoreFile::make(options.store.path);
      if (!file) return file.error();
      place_.init_method = file->url();
      store_file_.emplace(std::move(*file));
      return {};
    }
    auto server = StoreServer::listen(
        io_, table_,
        {.host = options.master_addr, .port = options.master_port, .same_user = options.same_user});
    if (!server) return server.error();
    store_ = std::move(*server);
    place_.store_port = store_->port();
    return {};
  }

  // An event that comes while the actions of another are performed waits for its turn.
  void tell(RunEvent event) {
    events_.push_back(std::move(event));
    if (std::exchange(telling_, true)) return;
    while (!events_.empty()) {
      const RunEvent next = std::move(events_.front());
      events_.pop_front();
      perform(supervisor_.step(next, now()));
    }
    telling_ = false;
    wait_for_deadline();
  }

  void perform(const Actions& actions) {
    for (const Action& action : actions) {
      std::visit([this](const auto& what) { perform(what); }, action);
    }
  }

  void perform(const Spawn& action) {
    const LocalRank worker = action.worker;
    // Told by way of the loop: between the starts of many workers the store answers those that are
    // there already, and a signal or a failure is seen.
    if (auto started = start(worker); !started) {
      asio::post(io_, [this, worker, error = started.error()] {
        tell(SpawnFailed{worker, error});
      });
    } else {
      asio::post(io_, [this, worker] {
        tell(Spawned{worker});
        watch(worker);
      });
    }
  }

  void perform(const SendSignal& action) {
    signal_group(at(action.worker).process, action.signal);
    // A stopped process takes no signal but SIGKILL before it goes on.
    if (action.signal != SIGKILL) signal_group(at(action.worker).process, SIGCONT);
  }

  void perform(const CloseOutput& action) {
    Worker& worker = at(action.worker);
    const bool out_held = worker.out->close(), err_held = worker.err->close();
    tell(OutputClosed{action.worker, out_held || err_held});
  }

  void perform(const Reap& action) {
    Worker& worker = at(action.worker);
    end_group(worker.process);
    worker.reaped = true;
    worker.exit.reset();
  }

  // The run is over: what is left to do is to get rid of the output.
  void perform(const Finish& action) {
    report_.run_end = action.run_end;
    finished_ = true;
    // From here on a signal ends distrun itself, whoever reads its output.
    signals_.cancel();
    signals_.clear();
    if (store_) {
      for (auto& closed : store_->status().closed) report_.refusals.push_back(closed.reason);
    }
    store_.reset();
    store_file_.reset();
    // A worker that could not be killed is still watched: no more.
    for (Worker& worker : workers_) worker.exit.reset();
    // Who reads what workers have printed may take all the time there is, as with any program; but
    // a run that was told to end must end, also on a terminal that hangs.
    const auto cause = action.run_end.cause;
    if (cause != RunEnd::Cause::kInterrupted && cause != RunEnd::Cause::kTimedOut) return;
    reading_.expires_after(plan_.options.shutdown_timeout);
    reading_.async_wait([this](error_code error) {
      if (!error) io_.stop();
    });
    out_.when_drained([this] { err_.when_drained([this] { reading_.cancel(); }); });
  }

  Result<void> start(LocalRank local_rank) {
    const auto index = static_cast<std::size_t>(local_rank.value());
    const WorkerPlan& planned = plan_.workers[index];

    std::error_code folder;
    std::filesystem::create_directories(
        std::filesystem::path(error_file(place_.error_folder, planned)).parent_path(), folder);
    if (folder) return Error::from_errno("make a folder in " + place_.error_folder, folder.value());

    auto out = open_pipe(), err = open_pipe();
    if (!out) return out.error();
    if (!err) return err.error();
    // A process in a background group that reads the terminal would be stopped.
    const bool reads = local_rank == LocalRank(0) && ::isatty(streams_.in) == 0;
    auto process = spawn_process({.executable = plan_.executable,
                                  .arguments = planned.arguments,
                                  .environment = worker_environment(plan_, planned, place_),
                                  .in = reads ? streams_.in : null_.get(),
                                  .out = out->to.get(),
                                  .err = err->to.get()});
    if (!process) return process.error();

    Worker& worker = workers_[index];
    worker.process = std::move(*process);
    worker.started = now();
    worker.out_pipe = std::move(out->from);
    worker.err_pipe = std::move(err->from);
    report_.workers[index].pid = worker.process.pid;
    return {};
  }

  // From here on its output is passed on and its end is seen.
  void watch(LocalRank local_rank) {
    Worker& worker = at(local_rank);
    const auto output_ended = [this, local_rank] {
      if (--at(local_rank).open_outputs == 0) tell(OutputClosed{local_rank});
    };
    worker.open_outputs = 2;
    worker.out.emplace(io_, std::move(worker.out_pipe), out_, output_ended);
    worker.err.emplace(io_, std::move(worker.err_pipe), err_, output_ended);
    worker.exit.emplace(io_, worker.process.pidfd.release());
    wait_for_exit(local_rank);
  }

  struct Pipe {
    UniqueFd from, to;
  };
  static Result<Pipe> open_pipe() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return Error::from_errno("open a pipe for its output");
    return Pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
  }

  void wait_for_exit(LocalRank local_rank) {
    at(local_rank)
        .exit->async_wait(stream_descriptor::wait_read, [this, local_rank](error_code error) {
          if (error) return;
          Worker& worker = at(local_rank);
          const auto end = look_at_end(worker.process);
          const auto index = static_cast<std::size_t>(local_rank.value());
          report_.workers[index].run_time =
              std::chrono::duration_cast<std::chrono::milliseconds>(now() - worker.started);
          // Only another part of this process could have taken the end; there is none.
          tell(Exited{local_rank, end.value_or(ExitedWith{kExitInternal})});
        });
  }

  void output_lost(int error) {
    if (error == EPIPE) return tell(ReaderGone{});
    tell(OutputLost{Error::from_errno("write what the workers print", error)});
  }

  void catch_signals() {
    for (const int signal : {SIGINT, SIGTERM, SIGQUIT, SIGHUP}) {
      // What is ignored stays so, for the workers too: nohup, and background jobs of scripts.
      struct sigaction before {};
      ::sigaction(signal, nullptr, &before);
      if (before.sa_handler != SIG_IGN) signals_.add(signal);
    }
  }

  void wait_for_signal() {
    signals_.async_wait([this](error_code error, int signal) {
      if (error) return;
      tell(Interrupted{signal});
      wait_for_signal();
    });
  }

  void wait_for_deadline() {
    const auto next = supervisor_.next_deadline();
    if (!next) {
      deadline_.cancel();
      waiting_ = false;
    } else if (deadline_.expiry() != *next || !waiting_) {
      waiting_ = true;
      deadline_.expires_at(*next);
      deadline_.async_wait([this](error_code error) {
        if (error) return;
        waiting_ = false;
        tell(Tick{});
      });
    }
  }

  const LaunchPlan& plan_;
  const LaunchStreams streams_;
  RunPlace place_;
  asio::io_context io_{1};
  OutputSink out_, err_;
  StoreTable table_;
  std::unique_ptr<StoreServer> store_;   // Where the choice is a TCP store,
  std::optional<StoreFile> store_file_;  // and where it is a file.
  UniqueFd null_;
  asio::signal_set signals_{io_};
  asio::steady_timer deadline_{io_}, reading_{io_};
  bool waiting_ = false;
  Supervisor supervisor_;
  std::deque<RunEvent> events_;
  bool telling_ = false;
  bool finished_ = false;
  std::vector<Worker> workers_;
  RunReport report_;
};

}  // namespace

Result<RunReport> run_launch(const LaunchPlan& plan, const LaunchStreams& streams) {
  // What is written to nobody, or beyond a limit on files, is an error of that write.
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);
  // Ignored, as some parents leave it, the kernel would reap the workers itself.
  ::signal(SIGCHLD, SIG_DFL);
  allow_many_descriptors();
  try {
    return Driver(plan, streams).run();
  } catch (const std::exception& error) {  // Asio's, or out of memory.
    return Error{ErrorKind::kSystem, error.what()};
  }
}

}  // namespace distrun

#include "testsuites/harness/session/test_session.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <map>
#include <set>
#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include "common/os/result_file.h"
#include "launcher/outcome/run_end.h"
#include "launcher/process/caught_signals.h"
#include "launcher/process/guard_watch.h"
#include "launcher/process/leaked_processes.h"
#include "launcher/process/worker_process.h"
#include "testsuites/harness/protocol/test_list_json.h"
#include "testsuites/harness/report/html_report.h"
#include "testsuites/harness/report/junit_xml.h"
#include "testsuites/harness/report/result_json.h"
#include "testsuites/harness/report/test_trace.h"
#include "testsuites/harness/session/leaked_process_lines.h"
#include "testsuites/harness/session/node_session.h"
#include "testsuites/harness/session/python_tests.h"
#include "testsuites/harness/session/session_nodes.h"

namespace distrun {

namespace asio = boost::asio;
using boost::system::error_code;

namespace {

// The needs of a test: "3 ranks", "1-4 ranks, 2 GPUs, time-out 5 s, alone".
std::string needs_text(const TestNeeds& needs) {
  std::string text = std::to_string(needs.ranks);
  if (needs.ranks_max > needs.ranks) text += fmt::format("-{}", needs.ranks_max);
  text += std::max(needs.ranks, needs.ranks_max) == 1 ? " rank" : " ranks";
  if (needs.min_gpus > 0) {
    text += fmt::format(", {} GPU{}", needs.min_gpus, needs.min_gpus == 1 ? "" : "s");
  }
  if (needs.backends != std::vector<std::string>{"gloo"}) {
    text += fmt::format(", {}", fmt::join(needs.backends, " or "));
  }
  if (needs.timeout) text += fmt::format(", time-out {:g} s", seconds(*needs.timeout));
  if (needs.exclusive) text += ", alone";
  return text;
}

// Only ids for programs, columns for people.
std::string list_text(const std::vector<TestInfo>& tests, bool terminal) {
  std::size_t longest = 0;
  for (const TestInfo& test : tests) longest = std::max(longest, test.id.size());
  std::string text;
  for (const TestInfo& test : tests) {
    text += terminal ? fmt::format("{:{}}  {}\n", test.id, longest, needs_text(test.needs))
                     : test.id + "\n";
  }
  return text;
}

class Session {
 public:
  Session(const TestSessionOptions& options, const TestSessionContext& context)
      : options_(options), context_(context), console_(options.console, context.out) {}

  Result<TestSessionEnd> run() {
    if (const auto opened = open_files(); !opened) return opened.error();
    allow_many_descriptors();
    catch_signals();
    guard_.begin(context_.lifeline, [this] { io_.stop(); });
    if (!options_.history.empty()) read_past();
    if (options_.nodes) {
      make_nodes();
      if (const auto opened = nodes_->join(); !opened) return opened.error();
    } else {
      load();
    }
    io_.run();
    end_ranks();
    if (context_.on_end) context_.on_end(not_passed());
    if (error_) return *error_;
    return TestSessionEnd{status()};
  }

 private:
  void make_nodes() {
    nodes_.emplace(
        io_, *options_.nodes, options_.runner.environment,
        SessionNodes::Handlers{
            .on_start = [this] { load(); },
            .on_error =
                [this](const Error& error) {
                  error_ = error;
                  io_.stop();
                },
            .on_signal =
                [this](int signal) {
                  if (signal_ == 0) end_by_signal(signal);
                },
            .on_loss = [this](const std::string& text) { node_lost(text); },
            .on_end = [this](int status, const std::string& why) { nodes_ended(status, why); },
            .on_notice = [this](const std::string& text) { tell(text); }});
  }

  void load() {
    auto runner = options_.runner;
    runner.keeps_all_results =
        std::any_of(reports_.begin(), reports_.end(),
                    [this](const Report& report) { return is_wanted(report); });
    if (nodes_) nodes_->add_to(runner);
    runner_.emplace(io_, std::move(runner), [this](const TestEvent& event) { happened(event); });
    tell_whom_it_waits_for();
    runner_->load([this](Result<std::vector<LoadedTest>> tests) {
      waiting_.cancel();
      const auto begun = tests ? begin(*tests) : Result<void>(tests.error());
      if (begun) return;
      error_ = begun.error();
      finish();
    });
  }

  // Tests that have not started cannot start any more.
  void node_lost(const std::string& text) {
    tell(text + "; no more tests start");
    if (begun_.tests == 0) return finish();
    runner_->stop(text);
  }

  void nodes_ended(int status, const std::string& why) {
    if (!why.empty() && !error_ && begun_.tests == 0) error_ = Error{ErrorKind::kSystem, why};
    if (!why.empty()) status_of_nodes_ = status;
    // A test may still run on this node only.
    if (!std::exchange(nodes_have_ended_, true) && runner_ && begun_.tests > 0) {
      return runner_->interrupt();
    }
    io_.stop();
  }

  // A report at the end of the run.
  struct Report {
    const char* name;  // As TestSessionContext::on_report says.
    const std::string& path;
    std::string (*text)(const TestsBegun&, const TestsEnded&);
    std::optional<ResultFile> file = std::nullopt;
  };

  Result<void> open_files() {
    if (options_.list) return {};
    for (Report& report : reports_) {
      if (report.path.empty()) continue;
      auto opened = ResultFile::open(report.path);
      if (!opened) return opened.error();
      report.file.emplace(std::move(*opened));
    }
    return {};
  }

  bool is_wanted(const Report& report) const { return report.file || context_.on_report; }

  void tell_whom_it_waits_for() {
    waiting_.expires_after(options_.hosts_patience);
    waiting_.async_wait([this](error_code error) {
      if (error) return;
      tell(
          fmt::format("waiting for the tests of {}", fmt::join(options_.runner.programs, " and ")));
    });
  }

  // In the order of execution.
  static std::vector<TestInfo> in_order(const TestPlan& plan) {
    std::vector<TestInfo> tests;
    std::set<std::uint32_t> listed;  // Once, even with --repeat.
    for (const TestPlan::Turn& turn : plan.turns) {
      if (listed.insert(turn.test).second) tests.push_back(plan.tests[turn.test].test);
    }
    return tests;
  }

  Result<void> begin(const std::vector<LoadedTest>& loaded) {
    auto chosen = choose(loaded);
    if (!chosen) return chosen.error();
    auto plan = plan_tests(*chosen, options_.plan, history_);
    if (options_.list) {
      const auto tests = in_order(plan);
      context_.out(options_.list_as_json ? test_list_json(tests)
                                         : list_text(tests, options_.console.terminal));
      finish();
      return {};
    }
    if (auto fits = look_at_rank_under(plan); !fits) return fits.error();
    for (const TestPlan::Turn& turn : plan.turns) ++owed_[plan.tests[turn.test].test.id];
    happened(
        TestsBegun{.tests = static_cast<int>(plan.turns.size()),
                   .nodes = options_.nodes ? options_.nodes->nodes : 1,
                   .jobs = plan.jobs,
                   .repetitions = options_.plan.repeat,
                   .attempts_max = options_.runner.attempts_max,
                   .binaries = options_.runner.programs,
                   .seed = options_.plan.seed,
                   .repeat_command = options_.history.empty()
                                         ? ""
                                         : repeat_failed_command(options_.plan, options_.selection),
                   .estimate = estimate(plan),
                   .at = wall_time_now(),
                   .host = context_.host});
    tick();
    runner_->run(std::move(plan), [this] { finish(); });
    return {};
  }

  Result<void> look_at_rank_under(const TestPlan& plan) const {
    if (!options_.runner.rank_under) return {};
    const int rank = *options_.runner.rank_under;
    const auto refuse = [&](const std::string& why) {
      return Error{ErrorKind::kInvalidArgument, fmt::format("--rank-under {}: {}", rank, why)};
    };
    if (plan.turns.size() != 1) {
      return refuse(fmt::format("select one test, not {}", plan.turns.size()));
    }
    const PlannedTest& test = plan.tests.front();
    if (!test.skip_reason.empty()) return refuse("the test is skipped: " + test.skip_reason);
    if (rank < test.ranks) return {};
    return refuse(fmt::format("{} has ranks 0 to {}", test.test.id, test.ranks - 1));
  }

  Result<std::vector<LoadedTest>> choose(const std::vector<LoadedTest>& loaded) {
    std::vector<TestInfo> all;
    std::map<std::string, const LoadedTest*> by_id;
    for (const LoadedTest& one : loaded) {
      if (!by_id.emplace(one.test.id, &one).second) {
        return Error{ErrorKind::kInvalidArgument, "two tests have the id " + one.test.id};
      }
      all.push_back(one.test);
    }
    TestSelection selection = options_.selection;
    if (options_.only_failed) selection.ids = history_.failed();
    auto selected = select_tests(std::move(all), selection);
    if (!selected) return selected.error();
    if (loaded.empty() && !options_.plan.command.empty()) {
      selected->why_none = why_no_python_tests(options_.plan.command);
    }
    tell_why_none(*selected, selection);
    std::vector<LoadedTest> chosen;
    for (const TestInfo& test : selected->tests) chosen.push_back(*by_id.at(test.id));
    return chosen;
  }

  void tell_why_none(const SelectedTests& selected, const TestSelection& selection) const {
    if (!selected.tests.empty()) return;
    if (selection.ids && selection.ids->empty()) {
      tell(history_.runs == 0 ? "--failed: no earlier run is recorded"
                              : "--failed: no test failed in earlier runs");
    } else if (!selected.why_none.empty()) {
      tell(selected.why_none);
    }
  }

  // nullopt unless the times of all tests are known.
  std::optional<std::chrono::milliseconds> estimate(const TestPlan& plan) const {
    std::chrono::milliseconds work{0};
    for (const PlannedTest& one : plan.tests) {
      if (!one.skip_reason.empty()) continue;
      if (one.expected.count() == 0) return std::nullopt;
      work += one.expected * std::min(one.ranks, plan.jobs);
    }
    return work * options_.plan.repeat / plan.jobs;
  }

  void happened(const TestEvent& event) {
    if (const auto* begun = std::get_if<TestsBegun>(&event)) begun_ = *begun;
    if (const auto* test = std::get_if<TestEnded>(&event);
        test && !has_failed(test->result.status)) {
      --owed_[test->result.test.id];
    }
    console_.happened(event);
    if (const auto* ended = std::get_if<TestsEnded>(&event)) take_end(*ended);
  }

  void take_end(const TestsEnded& ended) {
    const TestsSummary& summary = ended.summary;
    if (summary.failed > 0 || summary.not_run > 0) {
      status_ = kExitTestFailed;
    } else if (summary.passed == 0) {
      status_ = kExitNoTestRan;
    }
    ::signal(SIGPIPE, SIG_IGN);  // A closed pipe and a full disk become errors.
    ::signal(SIGXFSZ, SIG_IGN);
    if (!options_.history.empty()) {
      if (const auto added = add_to_history(options_.history, ended); !added) {
        tell(added.error().message);
      }
    }
    for (const Report& report : reports_) {
      if (!is_wanted(report)) continue;
      const std::string text = report.text(begun_, ended);
      if (report.file) keep_error(report.file->write(text));
      if (context_.on_report) context_.on_report(report.name, report.path, text);
    }
  }

  std::vector<std::string> not_passed() const {
    std::vector<std::string> ids;
    for (const auto& [id, repetitions] : owed_) {
      if (repetitions > 0) ids.push_back(id);
    }
    return ids;
  }

  void keep_error(const Result<void>& written) {
    if (written) return;
    if (error_) tell(error_->message);
    error_ = written.error();
  }

  void tell(const std::string& line) const { context_.err("distrun test: " + line + "\n"); }

  void read_past() {
    auto past = read_history(options_.history);
    if (!past.notice.empty()) tell(past.notice);
    history_ = std::move(past.history);
  }

  void catch_signals() {
    std::vector<int> wanted = options_.end_signals;
    wanted.insert(wanted.end(), {SIGTSTP, SIGUSR1});
    if (options_.console.terminal) wanted.push_back(SIGWINCH);
    signals_.begin(wanted, context_.lifeline.blocked);
  }

  // The first signal ends running tests and reports them; the second ends the run.
  void take_signal(int signal) {
    if (signal == SIGTSTP) return suspend();
    if (signal == SIGWINCH) return console_.resize(context_.columns());
    if (signal == SIGUSR1) {
      if (runner_) runner_->look();
      return;
    }
    // Another node may have got the first one before.
    if (!std::exchange(has_signal_, true)) {
      if (signal_ == 0) end_by_signal(signal);
      return;
    }
    signal_ = signal;
    io_.stop();
  }

  void end_by_signal(int signal) {
    signal_ = signal;
    if (!runner_ || begun_.tests == 0) return finish();
    runner_->interrupt();
  }

  // Stops until the guard, which waits for this, or another process sends SIGCONT.
  void suspend() {
    if (nodes_) return tell("a run on several nodes cannot be suspended");
    runner_->suspend([this] {
      ::raise(kSelfStop);
      runner_->continue_run();
    });
  }

  void tick() {
    console_.tick(std::chrono::steady_clock::now());
    ticking_.expires_after(std::chrono::seconds(1));
    ticking_.async_wait([this](error_code error) {
      if (!error) tick();
    });
  }

  // The other nodes end with the same status.
  void finish() {
    if (!nodes_ || nodes_have_ended_) return io_.stop();
    asio::post(io_, [this] {
      end_ranks();
      nodes_->end(status());
    });
  }

  int status() const {
    if (signal_ != 0) return 128 + signal_;
    return error_ ? exit_status(*error_) : status_of_nodes_.value_or(status_);
  }

  void end_ranks() {
    if (std::exchange(has_ended_ranks_, true)) return;
    runner_.reset();
    const auto interrupted = signal_ != 0 ? WasInterrupted::kYes : WasInterrupted::kNo;
    for (const auto& line :
         lines_about(kill_leaked_processes(std::chrono::seconds(30)), interrupted)) {
      if (status_ == 0) status_ = kExitTestFailed;
      tell(line);
    }
  }

  const TestSessionOptions& options_;
  const TestSessionContext& context_;
  asio::io_context io_;
  CaughtSignals signals_{io_, [this](int signal) { take_signal(signal); }};
  GuardWatch guard_{io_};
  asio::steady_timer ticking_{io_}, waiting_{io_};
  Console console_;
  std::optional<SessionNodes> nodes_;  // With several nodes.
  std::optional<TestRunner> runner_;
  std::array<Report, 4> reports_{{{"results.json", options_.json, result_json},
                                  {"junit.xml", options_.junit, junit_xml},
                                  {"report.html", options_.html, html_report},
                                  {"trace.json", options_.trace, test_trace}}};
  std::map<std::string, int> owed_;  // By id: repetitions that must still pass or be skipped.
  History history_;
  TestsBegun begun_;
  std::optional<Error> error_;
  int status_ = 0, signal_ = 0;
  bool has_signal_ = false;             // It came to this process.
  std::optional<int> status_of_nodes_;  // If another node has ended the tests.
  bool nodes_have_ended_ = false;
  bool has_ended_ranks_ = false;
};

}  // namespace

Result<TestSessionEnd> run_test_session(const TestSessionOptions& options,
                                        const TestSessionContext& context) {
  if (options.nodes && options.nodes->node > 0) return run_node_session(options, context);
  return Session(options, context).run();
}

}  // namespace distrun

#include "testsuites/harness/run/test_runner.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include <boost/asio/post.hpp>
#include <fmt/format.h>

#include "testsuites/harness/run/attempt_run.h"
#include "testsuites/harness/run/local_node.h"
#include "testsuites/harness/run/node_tests.h"
#include "testsuites/harness/run/result_ledger.h"
#include "testsuites/harness/run/run_suspension.h"
#include "testsuites/harness/run/test_queue.h"

namespace distrun {

namespace asio = boost::asio;

struct TestRunner::Impl : std::enable_shared_from_this<Impl> {
  using Clock = std::chrono::steady_clock;
  enum class Phase { kLoading, kRunning, kEnded };

  Impl(asio::io_context& loop, Options given, std::function<void(const TestEvent&)> to)
      : io(loop),
        options(std::move(given)),
        on_event(std::move(to)),
        queue({.jobs = options.jobs,
               .attempts_max = options.attempts_max,
               .keeps_order = options.keeps_order}),
        ledger({.no_skips = options.no_skips, .keeps_all_results = options.keeps_all_results}),
        suspension(std::make_shared<RunSuspension>(io, [this] { return all_are_known(); })) {
    nodes.push_back(std::make_unique<LocalNode>(
        io,
        LocalNode::Options{.hosts = {.programs = options.programs,
                                     .command = options.command,
                                     .environment = options.environment,
                                     .keeps_terminal = options.rank_under.has_value(),
                                     .ready_timeout = options.host_timeout,
                                     .losses_max = options.host_losses_max},
                           .host = options.host,
                           .folder = options.folder,
                           .variables = options.variables},
        handlers(0)));
    for (const auto& make_node : options.more_nodes) {
      nodes.push_back(make_node(io, handlers(nodes.size())));
    }
  }

  asio::io_context& io;
  const Options options;
  std::function<void(const TestEvent&)> on_event;
  std::function<void(Result<std::vector<LoadedTest>>)> on_loaded;
  std::function<void()> on_end;
  TestQueue queue;
  ResultLedger ledger;
  std::vector<std::unique_ptr<TestNode>> nodes;             // This machine first.
  std::map<std::size_t, std::unique_ptr<AttemptRun>> runs;  // By item in the queue.
  std::shared_ptr<RunSuspension> suspension;
  Clock::time_point begun;
  std::optional<std::string> why_not_run;  // Set once the run stops.
  Phase phase = Phase::kLoading;
  bool interrupted = false;

  TestNode::Handlers handlers(std::size_t node) {
    return {.on_ready = [this](std::size_t program) { host_ready(program); },
            .on_lost = [this, node](std::size_t program,
                                    const std::string& text) { host_lost(node, program, text); },
            .on_given_up = [this, node](std::size_t program) { give_up(node, program); },
            .on_known = [this] { suspension->look(); }};
  }

  void load() {
    for (const auto& node : nodes) {
      if (const auto started = node->start_all(); !started) return loaded(started.error());
    }
  }

  void host_ready(std::size_t program) {
    if (phase == Phase::kLoading) return look_whether_loaded();
    for (const std::size_t test : queue.take_waiting(program)) start(test);
  }

  void look_whether_loaded() {
    std::vector<std::vector<LoadedTest>> tests;
    for (const auto& node : nodes) {
      auto its = node->tests();
      if (!its) return;
      tests.push_back(std::move(*its));
    }
    for (std::size_t node = 1; node < nodes.size(); ++node) {
      const auto same = check_same_tests(tests[0], tests[node], static_cast<int>(node));
      if (!same) return loaded(same.error());
    }
    loaded(std::move(tests[0]));
  }

  void loaded(Result<std::vector<LoadedTest>> tests) {
    asio::post(io, [self = shared_from_this(), tests = std::move(tests)]() mutable {
      if (self->on_loaded) std::exchange(self->on_loaded, nullptr)(std::move(tests));
    });
  }

  void host_lost(std::size_t node, std::size_t program, const std::string& text) {
    if (phase == Phase::kLoading) return loaded(Error{ErrorKind::kSystem, text});
    on_event(TestsNoticed{text});
    // Not those that wait for ranks of other nodes since an earlier loss.
    const auto was_there = [&](std::size_t item, const AttemptRun& run) {
      return queue.at(item).plan.program == program && nodes_of(item) > node &&
             !run.has_lost_host(node);
    };
    std::vector<TestQueue::OnLostHost> there;
    for (const auto& [item, run] : runs) {
      if (was_there(item, *run)) there.push_back({item, run->has_reached_host(node)});
    }
    queue.host_lost(there);
    for_each_run([&](std::size_t item, AttemptRun& run) {
      if (was_there(item, run)) run.host_lost(node);
    });
    // Deferred, so that the host is not destroyed in its own handler.
    asio::post(io,
               [self = shared_from_this(), node, program] { self->replace_host(node, program); });
  }

  void replace_host(std::size_t node, std::size_t program) {
    if (phase == Phase::kEnded) return;
    if (why_not_run) return nodes[node]->end(program);
    nodes[node]->replace(program);
  }

  // Other programs' tests continue.
  void give_up(std::size_t node, std::size_t program) {
    on_event(TestsNoticed{nodes[node]->given_up(program)});
    for (const std::size_t item : queue.take_waiting(program)) start(item);
    go_on();
  }

  std::size_t nodes_of(std::size_t item) const {
    return std::min(static_cast<std::size_t>(queue.at(item).plan.ranks), nodes.size());
  }

  void run(TestPlan plan) {
    phase = Phase::kRunning;
    begun = Clock::now();
    queue.fill(std::move(plan));
    for (std::size_t item = 0; item < queue.size(); ++item) {
      const std::string& reason = queue.at(item).plan.skip_reason;
      if (!reason.empty()) finish(item, TestStatus::kSkipped, reason);
    }
    for (std::size_t node = 0; node < nodes.size(); ++node) {
      for (std::size_t program = 0; program < options.programs.size(); ++program) {
        if (!nodes[node]->is_ready(program)) replace_host(node, program);  // Ended since load().
      }
    }
    go_on();
  }

  void go_on() {
    while (const auto item = suspension->is_on() ? std::nullopt : queue.take()) start(*item);
    if (phase == Phase::kRunning && queue.is_empty()) end();
  }

  // If its test hosts are there.
  void start(std::size_t item) {
    const std::size_t program = queue.at(item).plan.program;
    bool are_ready = true;
    for (std::size_t node = 0; node < nodes_of(item); ++node) {
      const std::string& given_up = nodes[node]->given_up(program);
      if (!given_up.empty()) {
        queue.give_up(item);
        return finish(item, TestStatus::kFailed, given_up);
      }
      are_ready = are_ready && nodes[node]->is_ready(program);
    }
    are_ready ? begin(item) : queue.wait_for_host(item);
  }

  void begin(std::size_t index) {
    const std::uint64_t first_key = queue.begin(index);
    const TestQueue::Item& item = queue.at(index);
    const PlannedTest& plan = item.plan;
    const int attempt = static_cast<int>(item.attempts.size()) + 1;
    if (!item.alone) {
      on_event(AttemptBegun{plan.test.id, item.repetition, attempt, plan.ranks});
    }
    AttemptRun::Options its{.test = plan.test,
                            .program = plan.program,
                            .ranks = plan.ranks,
                            .attempt = attempt,
                            .backend = plan.backend,
                            .seed = options.seed,
                            .first_key = first_key,
                            .fresh = options.fresh,
                            .rank_under = options.rank_under,
                            .under = options.under,
                            .is_program = options.runs_program,
                            .store_host = options.store_host,
                            .store_address = options.store_address,
                            .limits = options.limits};
    its.limits.timeout = plan.timeout;
    its.limits.looked_at = options.rank_under;
    std::vector<TestNode*> used;
    for (std::size_t node = 0; node < nodes_of(index); ++node) used.push_back(nodes[node].get());
    auto& run = runs[index] = std::make_unique<AttemptRun>(
        io, used, std::move(its),
        [this, index](AttemptResult result) { attempt_ended(index, std::move(result)); });
    run->begin();
    if (suspension->is_on()) run->suspend();
    if (interrupted) run->interrupt();  // AttemptBegun's handler may have interrupted.
  }

  // `act` may end any running attempt.
  template <class Act>
  void for_each_run(const Act& act) {
    std::vector<std::size_t> items;
    for (const auto& [item, run] : runs) items.push_back(item);
    for (const std::size_t item : items) {
      if (const auto found = runs.find(item); found != runs.end()) act(item, *found->second);
    }
  }

  void attempt_ended(std::size_t index, AttemptResult ended) {
    runs.erase(index);
    const AfterAttempt after = queue.attempt_ended(index, std::move(ended));
    if (after == AfterAttempt::kNotCounted) return go_on();
    const TestQueue::Item& item = queue.at(index);
    const AttemptResult& result = item.attempts.back();
    const bool is_last = after == AfterAttempt::kLast;
    if (result.status != TestStatus::kFailed) {
      for (std::size_t node = 0; node < nodes_of(index); ++node) {
        nodes[node]->passed_a_test(item.plan.program);
      }
    }
    on_event(AttemptEnded{item.plan.test.id, item.repetition, result, is_last});
    if (is_last) {
      const bool flaky = result.status == TestStatus::kPassed && item.attempts.size() > 1;
      finish(index, flaky ? TestStatus::kFlaky : result.status, result.reason);
    }
    go_on();
  }

  void finish(std::size_t index, TestStatus status, std::string reason) {
    const TestQueue::Item& item = queue.at(index);
    TestResult result = ledger.result_of(item.plan, item.repetition, queue.finish(index), status,
                                         std::move(reason));
    on_event(TestEnded{result});
    status = result.status;
    ledger.add(index, item.plan, std::move(result));
    if (status == TestStatus::kFailed && options.fail_fast && !why_not_run) {
      on_event(TestsNoticed{"a test failed: no more tests start (--fail-fast)"});
      stop("not started after a failure (--fail-fast)");
    }
  }

  // Running attempts continue.
  void stop(std::string why) {
    if (!why_not_run) why_not_run = std::move(why);
    queue.stop();
    asio::post(io, [self = shared_from_this()] {
      if (self->phase == Phase::kRunning) self->go_on();
    });
  }

  void interrupt() {
    interrupted = true;
    stop("the run was interrupted before the test started");
    for_each_run([](std::size_t, AttemptRun& run) { run.interrupt(); });
  }

  void look() {
    for_each_run([this](std::size_t index, AttemptRun& run) {
      const TestQueue::Item& item = queue.at(index);
      run.look([this, id = item.plan.test.id, repetition = item.repetition](Whereabouts where) {
        on_event(PlacesRead{id, repetition, std::move(where)});
      });
    });
  }

  // A rank that is being forked cannot be stopped yet.
  void suspend(std::function<void()> on_suspended) {
    for_each_run([](std::size_t, AttemptRun& run) { run.suspend(); });
    suspension->begin(std::move(on_suspended));
  }

  bool all_are_known() const {
    return std::all_of(runs.begin(), runs.end(),
                       [](const auto& run) { return run.second->all_are_known(); });
  }

  void continue_run() {
    suspension->end();
    for_each_run([](std::size_t, AttemptRun& run) { run.continue_ranks(); });
    if (phase == Phase::kRunning) go_on();
  }

  void end() {
    phase = Phase::kEnded;
    for (std::size_t item = 0; item < queue.size(); ++item) {
      if (!queue.at(item).done) finish(item, TestStatus::kInterrupted, why_not_run.value_or(""));
    }
    on_event(
        ledger.take(std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begun)));
    for (const auto& node : nodes) node->end_all();
    on_end();
  }
};

TestRunner::TestRunner(asio::io_context& io, Options options,
                       std::function<void(const TestEvent&)> on_event)
    : impl_(std::make_shared<Impl>(io, std::move(options), std::move(on_event))) {}

TestRunner::~TestRunner() {
  impl_->phase = Impl::Phase::kEnded;  // For what is posted.
  impl_->on_loaded = nullptr;
  impl_->on_end = nullptr;
  impl_->runs.clear();
  for (const auto& node : impl_->nodes) node->end_all();
}

void TestRunner::load(std::function<void(Result<std::vector<LoadedTest>>)> on_loaded) {
  impl_->on_loaded = std::move(on_loaded);
  impl_->load();
}

void TestRunner::run(TestPlan plan, std::function<void()> on_end) {
  impl_->on_end = std::move(on_end);
  impl_->run(std::move(plan));
}

void TestRunner::look() { impl_->look(); }
void TestRunner::interrupt() { impl_->interrupt(); }
void TestRunner::stop(const std::string& why) { impl_->stop(why); }

void TestRunner::suspend(std::function<void()> on_suspended) {
  impl_->suspend(std::move(on_suspended));
}
void TestRunner::continue_run() { impl_->continue_run(); }

}  // namespace distrun

#include "testsuites/harness/run/test_runner.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <fmt/format.h>
#include <unistd.h>

#include "launcher/process/child_reaper.h"
#include "testsuites/harness/run/attempt_run.h"
#include "testsuites/harness/run/host_pool.h"
#include "testsuites/harness/run/leaked_processes.h"
#include "testsuites/harness/run/result_ledger.h"
#include "testsuites/harness/run/schedule.h"

namespace distrun {

namespace asio = boost::asio;

namespace {

// A host that hangs is not waited for: its ranks go on until it is replaced.
constexpr std::chrono::seconds kPauseTimeout{2};

}  // namespace

struct TestRunner::Impl : std::enable_shared_from_this<Impl> {
  using Clock = std::chrono::steady_clock;

  // There may be hundreds of thousands, of a few tests.
  struct Item {
    const PlannedTest& plan;
    int repetition = 0;
    std::vector<AttemptResult> attempts;
    std::unique_ptr<AttemptRun> run;
    std::uint64_t first_key = 0;
    bool alone = false;  // It was there when a host died.
    bool again = false;  // Another test may have been the cause: this attempt does not count.
    bool done = false;
  };

  Impl(asio::io_context& loop, Options given, std::function<void(const TestEvent&)> to)
      : io(loop),
        options(std::move(given)),
        on_event(std::move(to)),
        schedule(options.jobs),
        ledger({.no_skips = options.no_skips, .keeps_all_results = options.keeps_all_results}),
        hosts(io,
              {.programs = options.programs,
               .environment = options.environment,
               .keeps_terminal = options.rank_under.has_value(),
               .ready_timeout = options.host_timeout,
               .losses_max = options.host_losses_max},
              handlers()),
        reaper(io, [this](pid_t child) { return hosts.has(child); }) {
    reaper.begin();
    if (options.keeps_order) schedule.keep_order();
  }

  asio::io_context& io;
  const Options options;
  std::function<void(const TestEvent&)> on_event;
  std::function<void(Result<std::vector<LoadedTest>>)> on_loaded;
  std::function<void()> on_end, on_paused;
  Schedule schedule;
  ResultLedger ledger;
  HostPool hosts;
  ChildReaper reaper;
  LeakedProcesses leaked;
  std::vector<PlannedTest> planned;
  std::vector<Item> items;
  std::vector<std::size_t> waiting_for_host;         // Taken from the schedule already.
  std::map<std::uint64_t, std::size_t> item_of_key;  // By the first key of its attempt.
  std::uint64_t next_key = 1;
  Clock::time_point begun;
  std::string why_not_run;  // Once it is stopping.
  asio::steady_timer pause_timer{io};
  bool paused = false;
  bool running = false, stopping = false, interrupted = false, ended = false;

  HostPool::Handlers handlers() {
    return {.on_ready = [this](std::size_t program) { host_ready(program); },
            .on_forked =
                [this](const RankForked& forked, UniqueFd pidfd) {
                  if (auto* run = run_of(forked.key)) run->forked(forked, std::move(pidfd));
                  if (on_paused) look_whether_paused();
                },
            .on_not_forked =
                [this](const RankNotForked& not_forked) {
                  if (auto* run = run_of(not_forked.key)) run->not_forked(not_forked);
                  if (on_paused) look_whether_paused();
                },
            .on_ended =
                [this](const RankEnded& rank) {
                  if (auto* run = run_of(rank.key)) run->ended(rank);
                },
            .on_lost = [this](std::size_t program,
                              const std::string& text) { host_lost(program, text); }};
  }

  void load() {
    if (const auto started = hosts.start_all(); !started) loaded(started.error());
  }

  void host_ready(std::size_t program) {
    if (running) {
      for (const std::size_t test : take_waiting(program)) begin(test);
    } else if (auto all = hosts.tests()) {
      loaded(std::move(*all));
    }
  }

  void loaded(Result<std::vector<LoadedTest>> tests) {
    asio::post(io, [self = shared_from_this(), tests = std::move(tests)]() mutable {
      if (self->on_loaded) std::exchange(self->on_loaded, nullptr)(std::move(tests));
    });
  }

  void host_lost(std::size_t program, const std::string& text) {
    if (!running) return loaded(Error{ErrorKind::kSystem, text});
    on_event(TestsNoticed{text});
    std::vector<std::size_t> there;
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (items[i].run && items[i].plan.program == program) there.push_back(i);
    }
    for (const std::size_t i : there) {
      items[i].again = there.size() > 1 || !items[i].run->has_reached_host();
      items[i].run->host_lost();
    }
    // Not from within its handler.
    asio::post(io, [self = shared_from_this(), program] { self->replace_host(program); });
  }

  void replace_host(std::size_t program) {
    if (ended) return;
    if (stopping) return hosts.end(program);
    if (!hosts.replace(program)) give_up(program);
  }

  // The tests of other programs go on.
  void give_up(std::size_t program) {
    on_event(TestsNoticed{hosts.given_up(program)});
    for (const std::size_t test : take_waiting(program)) fail_without_host(test);
    go_on();
  }

  void fail_without_host(std::size_t index) {
    schedule.done(index);
    finish(index, TestStatus::kFailed, hosts.given_up(items[index].plan.program));
  }

  void run(TestPlan plan_of_all) {
    running = true;
    begun = Clock::now();
    if (plan_of_all.jobs > 0) schedule.set_jobs(plan_of_all.jobs);
    planned = std::move(plan_of_all.tests);
    items.reserve(std::max(planned.size(), plan_of_all.turns.size()));
    for (const auto& turn : plan_of_all.turns) {
      items.push_back({.plan = planned[turn.test], .repetition = turn.repetition});
    }
    if (items.empty()) {
      for (const PlannedTest& test : planned) items.push_back({.plan = test});
    }
    for (std::size_t i = 0; i < items.size(); ++i) {
      const PlannedTest& plan = items[i].plan;
      if (plan.skip_reason.empty()) {
        add_to_schedule(i);
      } else {
        finish(i, TestStatus::kSkipped, plan.skip_reason);
      }
    }
    for (std::size_t i = 0; i < hosts.size(); ++i) {
      if (!hosts.is_ready(i)) replace_host(i);  // It has ended since it was loaded.
    }
    go_on();
  }

  void add_to_schedule(std::size_t index) {
    const Item& item = items[index];
    schedule.add({.id = index,
                  .ranks = item.plan.ranks,
                  .exclusive = item.plan.test.needs.exclusive || item.alone,
                  .expected = item.plan.expected});
  }

  void go_on() {
    while (const auto test = stopping || paused ? std::nullopt : schedule.take()) {
      const std::size_t program = items[test->id].plan.program;
      if (hosts.is_ready(program)) {
        begin(test->id);
      } else if (!hosts.given_up(program).empty()) {
        fail_without_host(test->id);
      } else {
        waiting_for_host.push_back(test->id);
      }
    }
    const bool all_are_done = stopping ? std::none_of(items.begin(), items.end(),
                                                      [](const Item& item) { return !!item.run; })
                                       : schedule.is_empty();
    if (all_are_done && !std::exchange(ended, true)) end();
  }

  // Those that wait for this host, and do so no longer.
  std::vector<std::size_t> take_waiting(std::size_t host) {
    const auto others =
        std::stable_partition(waiting_for_host.begin(), waiting_for_host.end(),
                              [&](std::size_t index) { return items[index].plan.program != host; });
    std::vector<std::size_t> taken(others, waiting_for_host.end());
    waiting_for_host.erase(others, waiting_for_host.end());
    return taken;
  }

  void begin(std::size_t index) {
    Item& item = items[index];
    const PlannedTest& plan = item.plan;
    const int attempt = static_cast<int>(item.attempts.size()) + 1;
    item.first_key = next_key;
    next_key += static_cast<std::uint64_t>(plan.ranks);
    item_of_key[item.first_key] = index;
    if (!item.alone) {
      on_event(AttemptBegun{plan.test.id, item.repetition, attempt, plan.ranks});
    }
    AttemptRun::Options its{.test = plan.test,
                            .ranks = plan.ranks,
                            .attempt = attempt,
                            .backend = plan.backend,
                            .seed = options.seed,
                            .folder = fmt::format("{}/{}", options.folder, item.first_key),
                            .nonce = options.folder.substr(options.folder.rfind('/') + 1),
                            .first_key = item.first_key,
                            .fresh = options.fresh,
                            .rank_under = options.rank_under,
                            .under = options.under,
                            .limits = options.limits};
    its.limits.timeout = plan.timeout;
    its.limits.looked_at = options.rank_under;
    item.run = std::make_unique<AttemptRun>(
        io, hosts.process(plan.program), leaked, std::move(its),
        [this, index](AttemptResult result) { attempt_ended(index, std::move(result)); });
    item.run->begin();
    if (paused) item.run->pause();
    if (interrupted) item.run->interrupt();  // By who was told of its begin.
  }

  AttemptRun* run_of(std::uint64_t key) {
    auto found = item_of_key.upper_bound(key);
    if (found == item_of_key.begin()) return nullptr;
    const Item& item = items[std::prev(found)->second];
    // Of an attempt that was given up, something may still come.
    const bool is_its = key < item.first_key + static_cast<std::uint64_t>(item.plan.ranks);
    return is_its ? item.run.get() : nullptr;
  }

  void attempt_ended(std::size_t index, AttemptResult result) {
    Item& item = items[index];
    item.run.reset();
    item_of_key.erase(item.first_key);
    schedule.done(index);
    if (std::exchange(item.again, false) && !stopping) {
      item.alone = true;
      add_to_schedule(index);
      return go_on();
    }
    item.alone = false;
    if (result.status != TestStatus::kFailed) hosts.passed_a_test(item.plan.program);
    const bool tried_again =
        result.status == TestStatus::kFailed && !stopping && result.attempt < options.attempts_max;
    on_event(AttemptEnded{item.plan.test.id, item.repetition, result, !tried_again});
    item.attempts.push_back(std::move(result));
    if (tried_again) {
      add_to_schedule(index);
    } else {
      const AttemptResult& last = item.attempts.back();
      const bool flaky = last.status == TestStatus::kPassed && item.attempts.size() > 1;
      finish(index, flaky ? TestStatus::kFlaky : last.status, last.reason);
    }
    go_on();
  }

  void finish(std::size_t index, TestStatus status, std::string reason) {
    Item& item = items[index];
    item.done = true;
    TestResult result = ledger.result_of(item.plan, item.repetition, std::move(item.attempts),
                                         status, std::move(reason));
    on_event(TestEnded{result});
    status = result.status;
    ledger.add(index, item.plan, std::move(result));
    if (status == TestStatus::kFailed && options.fail_fast && !stopping) {
      on_event(TestsNoticed{"a test has failed: no more are started (--fail-fast)"});
      stop("a test had failed before it was started (--fail-fast)");
    }
  }

  // Those that run come to their end.
  void stop(std::string why) {
    if (!std::exchange(stopping, true)) why_not_run = std::move(why);
    waiting_for_host.clear();
    asio::post(io, [self = shared_from_this()] {
      if (self->running && !self->ended) self->go_on();
    });
  }

  void interrupt() {
    interrupted = true;
    stop("the run was ended before it was started");
    for (Item& item : items) {
      if (item.run) item.run->interrupt();
    }
  }

  // Of a rank that is being forked, nothing is known yet that could be stopped.
  void pause(std::function<void()> when_paused) {
    paused = true;
    on_paused = std::move(when_paused);
    for (const Item& item : items) {
      if (item.run) item.run->pause();
    }
    asio::post(io, [self = shared_from_this()] { self->look_whether_paused(); });
    pause_timer.expires_after(kPauseTimeout);
    pause_timer.async_wait([self = shared_from_this()](boost::system::error_code error) {
      if (!error) self->tell_paused();
    });
  }

  void look_whether_paused() {
    const bool all = std::all_of(items.begin(), items.end(), [](const Item& item) {
      return !item.run || item.run->all_are_known();
    });
    if (all) tell_paused();
  }

  void tell_paused() {
    pause_timer.cancel();
    if (on_paused) asio::post(io, std::exchange(on_paused, nullptr));
  }

  void resume() {
    paused = false;
    for (const Item& item : items) {
      if (item.run) item.run->resume();
    }
    if (running && !ended) go_on();
  }

  void end() {
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (!items[i].done) finish(i, TestStatus::kInterrupted, why_not_run);
    }
    on_event(
        ledger.take(std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begun)));
    reaper.end();
    hosts.end_all();
    on_end();
  }
};

TestRunner::TestRunner(asio::io_context& io, Options options,
                       std::function<void(const TestEvent&)> on_event)
    : impl_(std::make_shared<Impl>(io, std::move(options), std::move(on_event))) {}

TestRunner::~TestRunner() {
  impl_->reaper.end();
  impl_->items.clear();
  impl_->hosts.end_all();
}

void TestRunner::load(std::function<void(Result<std::vector<LoadedTest>>)> on_loaded) {
  impl_->on_loaded = std::move(on_loaded);
  impl_->load();
}

void TestRunner::run(TestPlan plan, std::function<void()> on_end) {
  impl_->on_end = std::move(on_end);
  impl_->run(std::move(plan));
}

void TestRunner::interrupt() { impl_->interrupt(); }

void TestRunner::pause(std::function<void()> on_paused) { impl_->pause(std::move(on_paused)); }
void TestRunner::resume() { impl_->resume(); }

}  // namespace distrun

#include "testsuites/harness/run/attempt_run.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <filesystem>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <utility>
#include <variant>

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <fmt/format.h>

#include "common/os/process_stat.h"
#include "distrun/store_server.h"
#include "evidence/connections/rank_sockets.h"
#include "store/network/client_processes.h"
#include "testsuites/harness/protocol/rank_variables.h"
#include "testsuites/harness/run/exit_status_verdict.h"
#include "testsuites/harness/run/python_crash.h"
#include "testsuites/harness/run/rank_place.h"
#include "testsuites/harness/run/rank_process.h"

namespace distrun {

namespace asio = boost::asio;
using boost::system::error_code;

namespace {

constexpr std::chrono::seconds kLeakedTimeout{5}, kStacksTimeout{3}, kCollectivesTimeout{3};

}  // namespace

struct AttemptRun::Impl : std::enable_shared_from_this<Impl> {
  using Clock = std::chrono::steady_clock;

  Impl(asio::io_context& loop, TestHostProcess& from, LeakedRankProcesses& left,
       StackCollector& collector, Options given, std::function<void(AttemptResult)> to)
      : io(loop),
        host(from),
        leaked(left),
        stacks(collector),
        options(std::move(given)),
        on_end(std::move(to)),
        begun(Clock::now()),
        supervisor(options.limits, options.ranks, begun),
        deadline(loop),
        view_deadline(loop) {
    for (int rank = 0; rank < options.ranks; ++rank) {
      ranks.push_back(std::make_shared<RankProcess>(
          io, RankProcess::Handlers{
                  .next_order = [this] { return ++seen; },
                  .on_answered = [this, rank] { step(RankAnswered{rank}); },
                  .on_collective = [this,
                                    rank](const std::string& text) { collective_told(rank, text); },
                  .on_over = [this, rank] { rank_over(rank); }}));
    }
  }

  // Of look(), until the ranks have answered.
  struct View {
    std::function<void(Whereabouts)> on_seen;
    Whereabouts where;
    std::set<int> asked;                   // They have not answered.
    std::map<int, std::string> told = {};  // Collectives.
  };

  asio::io_context& io;
  TestHostProcess& host;
  LeakedRankProcesses& leaked;
  StackCollector& stacks;
  const Options options;
  std::function<void(AttemptResult)> on_end;
  Clock::time_point begun, suspended_since;
  const WallTime begun_at = wall_time_now();
  AttemptSupervisor supervisor;
  asio::steady_timer deadline;
  std::unique_ptr<StoreServer> store;  // Of a program.
  std::vector<std::shared_ptr<RankProcess>> ranks;
  int seen = 0;       // Ended or failed ranks.
  Whereabouts where;  // Of the ranks that did not end.
  std::optional<View> view;
  asio::steady_timer view_deadline;
  bool waits_for_loss = false, finished = false, is_suspended = false;

  RankProcess& at(int rank) { return *ranks[static_cast<std::size_t>(rank)]; }
  int rank_of(std::uint64_t key) const { return static_cast<int>(key - options.first_key); }
  std::uint64_t key_of(int rank) const {
    return options.first_key + static_cast<std::uint64_t>(rank);
  }

  void begin() {
    auto opened = options.is_program ? open_store() : Result<void>{};
    for (int rank = 0; rank < options.ranks; ++rank) {
      const auto started = opened ? start(rank) : opened;
      if (!started) not_started(rank, started.error().message);
    }
    wait_for_deadline();
  }

  // The ranks of a program look for it at MASTER_ADDR and MASTER_PORT.
  Result<void> open_store() {
    auto opened = StoreServer::listen(io, {.same_user = true});
    if (!opened) return opened.error().with_context("open the store of the test");
    store = std::move(*opened);
    return {};
  }

  Result<void> start(int rank) {
    const std::string folder = rank_folder(options.folder, rank);
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error) return Error::from_errno("make the folder " + folder, error.value());
    ForkRank request{
        .key = key_of(rank),
        .test = options.test.id,
        .mark = mark(rank),
        .variables = rank_variables({.rank = rank,
                                     .ranks = options.ranks,
                                     .folder = options.folder,
                                     .backend = options.backend,
                                     .seed = options.seed,
                                     .is_debugged = options.rank_under.has_value(),
                                     .store_port = store ? store->port() : std::uint16_t{0}}),
        .folder = folder,
        .fresh = options.fresh};
    const bool has_terminal = rank == options.rank_under;
    if (has_terminal) request.under = options.under;
    auto descriptors = at(rank).open(has_terminal);
    if (!descriptors) return descriptors.error();
    host.fork(request, std::move(*descriptors));
    return {};
  }

  std::string mark(int rank) const {
    return rank_mark(fmt::format("{}.{}", options.nonce, key_of(rank)));
  }

  RankProcess::EndLeaked end_leaked(int rank) {
    return [this, rank] {
      return leaked.end(fmt::format("{}={}", kRankMarkVariable, mark(rank)), kLeakedTimeout);
    };
  }

  void forked(const RankForked& forked, UniqueFd pidfd) {
    const int rank = rank_of(forked.key);
    at(rank).forked(forked, std::move(pidfd));
    if (is_suspended && rank != options.rank_under) at(rank).send(SIGSTOP);
  }

  void not_started(int rank, const std::string& problem) {
    at(rank).not_started(problem, end_leaked(rank));
  }

  void ended(int rank, const std::optional<ProcessEnd>& how) {
    at(rank).ended(how, end_leaked(rank));
  }

  void host_lost() {
    for (int rank = 0; rank < options.ranks; ++rank) at(rank).host_lost(end_leaked(rank));
    if (waits_for_loss && !finished) finish(/*interrupted=*/false);
  }

  // Not called from a pipe's handler: it may end the attempt.
  void rank_over(int rank) {
    const RankOutcome outcome = outcome_of(options.test.needs, rank, judged(at(rank).facts()));
    asio::post(io, [self = shared_from_this(), rank, outcome] {
      self->collective_awaited_no_more(rank);
      self->step(RankSeenToEnd{rank, outcome});
    });
  }

  RankFacts judged(RankFacts facts) const {
    return options.is_program ? judged_by_exit_status(std::move(facts)) : std::move(facts);
  }

  void step(const AttemptEvent& event) {
    if (finished) return;
    const auto actions = supervisor.step(event, Clock::now());
    const auto before = Clock::now();
    // The time for this does not count against the ranks' time to answer.
    if (look_at_asked_ranks(actions))
      supervisor.step(AttemptContinued{Clock::now() - before}, before);
    for (const AttemptAction& action : actions) {
      std::visit([this](const auto& what) { perform(what); }, action);
    }
    wait_for_deadline();
  }

  // For those of `wanted` that run.
  std::vector<RankStacks> stacks_of(const std::vector<int>& wanted) {
    std::vector<int> running;
    std::vector<std::vector<pid_t>> pids;
    // A program may start others, as a shell does.
    auto groups = options.is_program ? processes_by_group() : decltype(processes_by_group()){};
    for (const int rank : wanted) {
      const auto leader = at(rank).pid();
      if (!leader) continue;
      running.push_back(rank);
      pids.push_back({*leader});
      for (const pid_t pid : groups[*leader]) {
        if (pid != *leader) pids.back().push_back(pid);
      }
    }
    // Before the stacks, as above.
    auto awaited = store ? waits_of(store->status()) : WaitsOfProcesses{};
    auto all = stacks.collect_groups(pids, kStacksTimeout);
    std::vector<RankStacks> found;
    for (std::size_t i = 0; i < running.size(); ++i) {
      RankStacks& one = found.emplace_back();
      one.rank = running[i];
      one.processes = std::move(all[i]);
      for (const pid_t pid : pids[i]) {
        if (one.awaited.empty()) one.awaited = std::move(awaited[pid]);
      }
    }
    return found;
  }

  std::vector<ConnectionLine> connections_of(const std::vector<int>& wanted) {
    std::vector<std::pair<int, pid_t>> processes;
    for (const int rank : wanted) {
      if (const auto pid = at(rank).pid()) processes.emplace_back(rank, *pid);
    }
    return connection_lines(read_rank_sockets(processes));
  }

  // Before any of them answers, because answering changes their places. False if none is asked.
  bool look_at_asked_ranks(const std::vector<AttemptAction>& actions) {
    std::vector<int> asked;
    for (const AttemptAction& action : actions) {
      if (const auto* ask = std::get_if<AskWhere>(&action)) asked.push_back(ask->rank);
    }
    if (asked.empty()) return false;
    for (const int rank : asked) at(rank).time_is_up();
    const auto connections = connections_of(asked);  // Before the stacks, which may take seconds.
    const auto found = stacks_of(asked);
    for (const RankStacks& one : found) {
      at(one.rank).seen(place_of(one.rank, one.processes) +
                        connections_text(connections, "", one.rank));
    }
    where = places_of(found);
    if (!where.stacks.empty()) where.stacks += connections_text(connections, "  ");
    return true;
  }

  void look(std::function<void(Whereabouts)> on_seen) {
    if (view || finished) return;  // The answer is on its way.
    view.emplace(View{.on_seen = std::move(on_seen), .where = places(), .asked = {}});
    for (int rank = 0; rank < options.ranks; ++rank) {
      const bool can_answer = !options.is_program && rank != options.rank_under;
      if (can_answer && at(rank).ask_collective()) view->asked.insert(rank);
    }
    if (view->asked.empty()) return end_view();
    view_deadline.expires_after(kCollectivesTimeout);
    view_deadline.async_wait([self = shared_from_this()](error_code error) {
      if (!error && self->view) self->end_view();
    });
  }

  void collective_told(int rank, const std::string& text) {
    if (!view) return;
    view->told[rank] = text;
    collective_awaited_no_more(rank);
  }

  void collective_awaited_no_more(int rank) {
    if (view && view->asked.erase(rank) > 0 && view->asked.empty()) end_view();
  }

  void end_view() {
    view_deadline.cancel();
    View done = std::move(*view);
    view.reset();
    for (const int rank : done.asked) done.told[rank] = "it does not answer";
    done.where.stacks += collectives_text(done.told);
    done.on_seen(std::move(done.where));
  }

  Whereabouts places() {
    std::vector<int> all(ranks.size());
    std::iota(all.begin(), all.end(), 0);
    const std::string connections = connections_text(connections_of(all), "  ");
    Whereabouts found = places_of(stacks_of(all));
    found.stacks += connections;
    return found;
  }

  void perform(const AskWhere& action) {
    if (!options.is_program) return at(action.rank).ask();
    at(action.rank).take_seen_place();
    asio::post(io,
               [self = shared_from_this(), rank = action.rank] { self->step(RankAnswered{rank}); });
  }
  void perform(const EndRank& action) { at(action.rank).end(); }

  // The terminal stops the rank that uses it.
  void signal_ranks(int signal) {
    for (int rank = 0; rank < options.ranks; ++rank) {
      if (rank != options.rank_under && !at(rank).has_ended()) at(rank).send(signal);
    }
  }

  bool all_are_known() const {
    return std::all_of(ranks.begin(), ranks.end(),
                       [](const auto& rank) { return rank->is_known(); });
  }

  void suspend() {
    is_suspended = true;
    suspended_since = Clock::now();
    signal_ranks(SIGSTOP);
  }

  void continue_ranks() {
    is_suspended = false;
    signal_ranks(SIGCONT);
    const auto suspended_for = Clock::now() - suspended_since;
    begun += suspended_for;
    step(AttemptContinued{suspended_for});
  }

  // Another test may have blocked the host: its owner decides.
  void perform(const FinishAttempt& action) {
    if (!action.interrupted && host_is_silent()) {
      waits_for_loss = true;
      return host.give_up("it does not answer");
    }
    finish(action.interrupted);
  }

  bool host_is_silent() const {
    return std::any_of(ranks.begin(), ranks.end(),
                       [](const auto& rank) { return rank->is_silent(); });
  }

  void finish(bool interrupted) {
    if (view) end_view();
    finished = true;
    deadline.cancel();
    std::vector<RankFacts> facts;
    for (const auto& rank : ranks) {
      facts.push_back(judged(rank->take_facts()));
      name_functions(facts.back());
      rank->close();
    }
    std::error_code ignored;
    std::filesystem::remove_all(options.folder, ignored);
    AttemptResult result = judge(options.test, std::move(facts), interrupted, where.line);
    result.where = std::move(where);
    result.attempt = options.attempt;
    result.began = begun_at;
    result.time = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begun);
    asio::post(io, [self = shared_from_this(), result = std::move(result)]() mutable {
      self->on_end(std::move(result));
    });
  }

  // A process that crashes could not name its functions.
  void name_functions(RankFacts& rank) {
    const bool is_killed = rank.end && std::holds_alternative<KilledBy>(*rank.end);
    if (!is_killed && !rank.has_uncaught_exception()) return;
    if (rank.was_ended) return;
    // Python reports these signals. Others end a rank whose child may have reported a crash.
    constexpr std::array kReported = {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL};
    const int signal = is_killed ? std::get<KilledBy>(*rank.end).signal : 0;
    if (std::find(kReported.begin(), kReported.end(), signal) != kReported.end()) {
      rank.crashed_in = place_of_python_crash(rank.output);
    }
    rank.output = with_named_backtraces(rank.output, stacks.names());
  }

  void wait_for_deadline() {
    const auto next = supervisor.next_deadline();
    if (!next || finished) return;
    deadline.expires_at(*next);
    deadline.async_wait([self = shared_from_this()](error_code error) {
      if (!error) self->step(AttemptTick{});
    });
  }
};

AttemptRun::AttemptRun(asio::io_context& io, TestHostProcess& host, LeakedRankProcesses& leaked,
                       StackCollector& stacks, Options options,
                       std::function<void(AttemptResult)> on_end)
    : impl_(std::make_shared<Impl>(io, host, leaked, stacks, std::move(options),
                                   std::move(on_end))) {}

AttemptRun::~AttemptRun() {
  impl_->finished = true;
  impl_->deadline.cancel();
  impl_->view.reset();
  impl_->view_deadline.cancel();
  for (const auto& rank : impl_->ranks) rank->close();
}

void AttemptRun::begin() { impl_->begin(); }
void AttemptRun::interrupt() { impl_->step(AttemptInterrupted{}); }
bool AttemptRun::has_reached_host() const { return !impl_->host.is_unsent(impl_->key_of(0)); }
void AttemptRun::look(std::function<void(Whereabouts)> on_seen) { impl_->look(std::move(on_seen)); }
void AttemptRun::suspend() { impl_->suspend(); }
bool AttemptRun::all_are_known() const { return impl_->all_are_known(); }
void AttemptRun::continue_ranks() { impl_->continue_ranks(); }
void AttemptRun::forked(const RankForked& forked, UniqueFd pidfd) {
  impl_->forked(forked, std::move(pidfd));
}
void AttemptRun::not_forked(const RankNotForked& not_forked) {
  impl_->not_started(impl_->rank_of(not_forked.key), not_forked.problem);
}
void AttemptRun::ended(const RankEnded& ended) {
  impl_->ended(impl_->rank_of(ended.key), ended.end);
}
void AttemptRun::host_lost() { impl_->host_lost(); }

}  // namespace distrun

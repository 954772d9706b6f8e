#include "testsuites/harness/run/attempt_run.h"

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <optional>
#include <utility>

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/os/proc.h"
#include "launcher/process/process_stat.h"
#include "testsuites/harness/protocol/rank_frames.h"
#include "testsuites/harness/protocol/rank_variables.h"
#include "testsuites/harness/protocol/where_signal.h"
#include "testsuites/harness/run/captured_text.h"
#include "testsuites/harness/run/pipe_reader.h"

namespace distrun {

namespace asio = boost::asio;
using boost::system::error_code;

namespace {

constexpr std::chrono::seconds kOrphansTimeout{5};
// What is still in the pipes of a rank that has ended is there at once, unless a process that was
// not found holds them.
constexpr std::chrono::seconds kPipesTimeout{1};

struct Pipe {
  UniqueFd from, to;
};

Result<Pipe> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return Error::from_errno("open a pipe for a rank");
  return Pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

void send_signal(const UniqueFd& pidfd, int signal) {
  if (pidfd) ::syscall(SYS_pidfd_send_signal, pidfd.get(), signal, nullptr, 0);
}

bool has_exited(const UniqueFd& pidfd) {
  if (!pidfd) return false;
  pollfd exit{pidfd.get(), POLLIN, 0};
  return ::poll(&exit, 1, 0) == 1;
}

// Of a rank that has not answered.
std::string place_from_outside(pid_t pid) {
  const auto stat = read_process_stat(pid);
  if (!stat) return "it does not answer\n";
  if (stat->state == 'T' || stat->state == 't') return "it is stopped (SIGSTOP)\n";
  if (stat->state == 'D') return "it does not answer: it waits in the kernel\n";
  return "it does not answer: all its threads are busy, or block signals\n";
}

}  // namespace

struct AttemptRun::Impl : std::enable_shared_from_this<Impl> {
  using Clock = std::chrono::steady_clock;

  struct Rank {
    RankFacts facts;
    pid_t pid = -1;
    UniqueFd pidfd;
    RankFrames frames;
    CapturedText output;
    std::vector<std::unique_ptr<PipeReader>> pipes;
    PipeReader* results = nullptr;  // One of them.
    std::unique_ptr<asio::steady_timer> pipes_timer;
    bool end_seen = false;  // Its process has ended; its pipes may not have.
    bool is_over = false;
    bool to_be_ended = false;
    bool asked = false;  // Where it stands.
  };

  Impl(asio::io_context& loop, TestHostProcess& from, Orphans& left, Options given,
       std::function<void(AttemptResult)> to)
      : io(loop),
        host(from),
        orphans(left),
        options(std::move(given)),
        on_end(std::move(to)),
        begun(Clock::now()),
        supervisor(options.limits, options.ranks, begun),
        deadline(loop),
        ranks(static_cast<std::size_t>(options.ranks)) {}

  asio::io_context& io;
  TestHostProcess& host;
  Orphans& orphans;
  const Options options;
  std::function<void(AttemptResult)> on_end;
  Clock::time_point begun, paused;
  AttemptSupervisor supervisor;
  asio::steady_timer deadline;
  std::vector<Rank> ranks;
  int seen = 0;  // Ranks that have ended, or told of a failure.
  bool waits_for_loss = false, finished = false, is_paused = false;

  Rank& at(int rank) { return ranks[static_cast<std::size_t>(rank)]; }
  int rank_of(std::uint64_t key) const { return static_cast<int>(key - options.first_key); }
  std::uint64_t key_of(int rank) const {
    return options.first_key + static_cast<std::uint64_t>(rank);
  }

  void begin() {
    for (int rank = 0; rank < options.ranks; ++rank) {
      if (const auto started = start(rank); !started) not_started(rank, started.error().message);
    }
    wait_for_deadline();
  }

  Result<void> start(int rank) {
    const std::string folder = rank_folder(options.folder, rank);
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error) return Error::from_errno("make the folder " + folder, error.value());
    ForkRank request{.key = key_of(rank),
                     .test = options.test.id,
                     .mark = mark(rank),
                     .variables = rank_variables({.rank = rank,
                                                  .ranks = options.ranks,
                                                  .folder = options.folder,
                                                  .backend = options.backend,
                                                  .seed = options.seed,
                                                  .is_debugged = options.rank_under >= 0}),
                     .folder = folder,
                     .fresh = options.fresh};
    const bool has_terminal = rank == options.rank_under;
    if (has_terminal) request.under = options.under;
    auto result = make_pipe();
    if (!result) return result.error();
    std::vector<UniqueFd> fds;
    if (has_terminal) {
      for (const int fd : {0, 1, 2}) fds.emplace_back(::fcntl(fd, F_DUPFD_CLOEXEC, 3));
    } else {
      auto out = make_pipe(), err = make_pipe();
      if (!out) return out.error();
      if (!err) return err.error();
      fds.emplace_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
      fds.push_back(std::move(out->to));
      fds.push_back(std::move(err->to));
      read_output(rank, std::move(out->from));
      read_output(rank, std::move(err->from));
    }
    read_results(rank, std::move(result->from));
    fds.push_back(std::move(result->to));
    for (const UniqueFd& fd : fds) {
      if (!fd) return Error{ErrorKind::kSystem, "open its descriptors: too many are open"};
    }
    host.fork(request, std::move(fds));
    return {};
  }

  std::string mark(int rank) const {
    return rank_mark(fmt::format("{}.{}", options.nonce, key_of(rank)));
  }

  void read_output(int rank, UniqueFd pipe) {
    read(rank, std::move(pipe),
         [this, rank](std::string_view bytes) { at(rank).output.add(bytes); });
  }

  void read_results(int rank, UniqueFd pipe) {
    read(rank, std::move(pipe), [this, rank](std::string_view bytes) {
      at(rank).frames.add(bytes);
      while (const auto frame = at(rank).frames.next()) {
        std::visit([&](const auto& what) { take(rank, what); }, *frame);
      }
    });
    at(rank).results = at(rank).pipes.back().get();
  }

  void read(int rank, UniqueFd pipe, std::function<void(std::string_view)> on_bytes) {
    at(rank).pipes.push_back(std::make_unique<PipeReader>(
        io, std::move(pipe), std::move(on_bytes), [this, rank] { look_whether_over(rank); }));
  }

  void take(int rank, const AssertionFailed& failed) {
    constexpr std::size_t kFailuresMax = 100;
    RankFacts& facts = at(rank).facts;
    if (facts.was_late) return;
    note_order(facts);
    if (facts.failures.size() < kFailuresMax) {
      facts.failures.push_back(failed.failure);
    } else if (facts.failures.size() == kFailuresMax) {
      facts.failures.push_back(
          {.file = "", .line = 0, .message = "more have failed, which are not kept"});
    }
  }
  void note_order(RankFacts& facts) {
    if (facts.order == 0) facts.order = ++seen;
  }
  void take(int rank, const SkipAsked& skip) {
    if (!at(rank).facts.was_late) at(rank).facts.skip_reason = skip.reason;
  }
  void take(int rank, const PlaceTold& place) {
    at(rank).facts.stands_at = place.text;
    step(RankAnswered{rank});
  }
  void take(int rank, const TestDone& done) {
    if (at(rank).facts.was_late) return;
    at(rank).facts.is_done = true;
    at(rank).facts.assertions = done.assertions;
    at(rank).facts.collectives = done.collectives;
  }

  void forked(int rank, pid_t pid, UniqueFd pidfd) {
    at(rank).pid = pid;
    at(rank).pidfd = std::move(pidfd);
    if (at(rank).to_be_ended) end(rank);
    if (is_paused && rank != options.rank_under) send_signal(at(rank).pidfd, SIGSTOP);
  }

  void not_started(int rank, const std::string& problem) {
    at(rank).facts.not_started = problem;
    see_end(rank);
  }

  void ended(int rank, const std::optional<ProcessEnd>& how) {
    at(rank).facts.end = how;
    see_end(rank);
  }

  void host_lost() {
    for (int rank = 0; rank < options.ranks; ++rank) {
      if (at(rank).end_seen) continue;
      at(rank).facts.host_lost = true;
      send_signal(at(rank).pidfd, SIGKILL);
      see_end(rank);
    }
    if (waits_for_loss && !finished) finish(/*interrupted=*/false);
  }

  void see_end(int rank) {
    Rank& its = at(rank);
    if (std::exchange(its.end_seen, true)) return;
    note_order(its.facts);
    its.facts.left_behind =
        orphans.end(fmt::format("{}={}", kRankMarkVariable, mark(rank)), kOrphansTimeout);
    // It has itself become an orphan where its host has gone.
    std::erase_if(its.facts.left_behind, [&](const std::string& one) {
      return one.starts_with(fmt::format("{} (", its.pid));
    });
    its.pipes_timer = std::make_unique<asio::steady_timer>(io, kPipesTimeout);
    its.pipes_timer->async_wait([self = shared_from_this(), rank](error_code error) {
      if (!error) self->drain(rank);
    });
    look_whether_over(rank);
  }

  void drain(int rank) {
    Rank& its = at(rank);
    for (const auto& pipe : its.pipes) {
      // It may have ended, and this process may have had no time to see that.
      if (pipe->drain()) continue;
      if (its.facts.left_behind.empty()) {
        its.facts.left_behind.emplace_back("one that holds its output, and could not be found");
      }
      pipe->give_up();
    }
  }

  void look_whether_over(int rank) {
    Rank& its = at(rank);
    if (!its.end_seen || its.is_over) return;
    for (const auto& pipe : its.pipes) {
      if (!pipe->has_ended()) return;
    }
    its.is_over = true;
    its.pipes_timer->cancel();
    its.facts.sent_garbage =
        its.frames.is_garbage() || (its.frames.is_within_frame() && its.facts.end &&
                                    std::holds_alternative<ExitedWith>(*its.facts.end));
    // Not from within a pipe's handler: this may be the end of the attempt.
    const RankOutcome outcome = outcome_of(options.test.needs, rank, its.facts);
    asio::post(io, [self = shared_from_this(), rank, outcome] {
      self->step(RankSeenToEnd{rank, outcome});
    });
  }

  void step(const AttemptEvent& event) {
    if (finished) return;
    for (const AttemptAction& action : supervisor.step(event, Clock::now())) {
      std::visit([this](const auto& what) { perform(what); }, action);
    }
    wait_for_deadline();
  }

  // From now on nothing that it does is evidence: the signal ends a sleep() or a poll() early. What
  // it has told before is, though this process may not have come to read it.
  void perform(const AskWhere& action) {
    Rank& its = at(action.rank);
    its.asked = true;
    if (its.results != nullptr) its.results->read_what_is_there();
    its.facts.was_late = !its.end_seen && !its.facts.is_done && !has_exited(its.pidfd);
    send_signal(its.pidfd, where_signal());
  }

  // One with the terminal is stopped by that.
  void signal_ranks(int signal) {
    for (int rank = 0; rank < options.ranks; ++rank) {
      if (rank != options.rank_under && !at(rank).end_seen) send_signal(at(rank).pidfd, signal);
    }
  }

  bool all_are_known() const {
    return std::all_of(ranks.begin(), ranks.end(),
                       [](const Rank& rank) { return rank.end_seen || rank.pidfd; });
  }

  void pause() {
    is_paused = true;
    paused = Clock::now();
    signal_ranks(SIGSTOP);
  }

  void resume() {
    is_paused = false;
    signal_ranks(SIGCONT);
    const auto how_long = Clock::now() - paused;
    begun += how_long;
    step(AttemptPaused{how_long});
  }

  void perform(const EndRank& action) { end(action.rank); }

  void end(int rank) {
    Rank& its = at(rank);
    its.to_be_ended = true;
    if (!its.pidfd || its.end_seen) return;
    its.facts.was_ended = true;
    if (its.asked && its.facts.stands_at.empty()) {
      its.facts.stands_at = place_from_outside(its.pid);
    }
    send_signal(its.pidfd, SIGKILL);
  }

  // A host that does not answer may do so for another's sake: who has it knows what to do then.
  void perform(const FinishAttempt& action) {
    if (!action.interrupted && host_is_silent()) {
      waits_for_loss = true;
      return host.give_up("it does not answer");
    }
    finish(action.interrupted);
  }

  bool host_is_silent() const {
    return std::any_of(ranks.begin(), ranks.end(), [](const Rank& rank) {
      return !rank.end_seen && (!rank.pidfd || has_exited(rank.pidfd));
    });
  }

  void finish(bool interrupted) {
    finished = true;
    deadline.cancel();
    std::vector<RankFacts> facts;
    for (Rank& rank : ranks) {
      rank.facts.output = rank.output.text();
      rank.facts.was_ended = rank.facts.was_ended || !rank.end_seen;
      facts.push_back(std::move(rank.facts));
      rank.pipes.clear();
    }
    std::error_code ignored;
    std::filesystem::remove_all(options.folder, ignored);
    AttemptResult result = judge(options.test.needs, std::move(facts), interrupted);
    result.attempt = options.attempt;
    result.time = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begun);
    asio::post(io, [self = shared_from_this(), result = std::move(result)]() mutable {
      self->on_end(std::move(result));
    });
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

AttemptRun::AttemptRun(asio::io_context& io, TestHostProcess& host, Orphans& orphans,
                       Options options, std::function<void(AttemptResult)> on_end)
    : impl_(std::make_shared<Impl>(io, host, orphans, std::move(options), std::move(on_end))) {}

AttemptRun::~AttemptRun() {
  impl_->finished = true;
  impl_->deadline.cancel();
  for (auto& rank : impl_->ranks) rank.pipes.clear();
}

void AttemptRun::begin() { impl_->begin(); }
void AttemptRun::interrupt() { impl_->step(AttemptInterrupted{}); }
bool AttemptRun::has_reached_host() const { return !impl_->host.is_unsent(impl_->key_of(0)); }
void AttemptRun::pause() { impl_->pause(); }
bool AttemptRun::all_are_known() const { return impl_->all_are_known(); }
void AttemptRun::resume() { impl_->resume(); }
void AttemptRun::forked(const RankForked& forked, UniqueFd pidfd) {
  impl_->forked(impl_->rank_of(forked.key), forked.pid, std::move(pidfd));
}
void AttemptRun::not_forked(const RankNotForked& not_forked) {
  impl_->not_started(impl_->rank_of(not_forked.key), not_forked.problem);
}
void AttemptRun::ended(const RankEnded& ended) {
  impl_->ended(impl_->rank_of(ended.key), ended.end);
}
void AttemptRun::host_lost() { impl_->host_lost(); }

}  // namespace distrun

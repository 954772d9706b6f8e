#include "testsuites/harness/run/local_part.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <numeric>
#include <optional>
#include <utility>

#include <boost/asio/post.hpp>
#include <fmt/format.h>

#include "common/os/process_stat.h"
#include "distrun/store_address.h"
#include "testsuites/harness/protocol/rank_variables.h"
#include "testsuites/harness/run/exit_status_verdict.h"
#include "testsuites/harness/run/python_crash.h"
#include "testsuites/harness/run/rank_place.h"

namespace distrun {

namespace {

constexpr std::chrono::seconds kLeakedTimeout{5}, kStacksTimeout{3};

}  // namespace

LocalPart::LocalPart(boost::asio::io_context& io, Place place, PartOptions options,
                     PartHandlers handlers)
    : io_(io),
      place_(std::move(place)),
      options_(std::move(options)),
      handlers_(std::move(handlers)) {
  for (const int rank : all_ranks()) {
    ranks_.push_back(std::make_shared<RankProcess>(
        io_, RankProcess::Handlers{.on_noted =
                                       [this, rank] {
                                         if (!is_over_) handlers_.on_noted(rank);
                                       },
                                   .on_answered =
                                       [this, rank] {
                                         if (!is_over_) handlers_.on_answered(rank);
                                       },
                                   .on_collective =
                                       [this, rank](const std::string& text) {
                                         if (!is_over_) handlers_.on_collective(rank, text);
                                       },
                                   .on_over = [this, rank] { rank_over(rank); }}));
  }
}

LocalPart::~LocalPart() {
  for (const auto& rank : ranks_) rank->close();
}

std::vector<int> LocalPart::all_ranks() const {
  std::vector<int> all(static_cast<std::size_t>(options_.count));
  std::iota(all.begin(), all.end(), options_.first);
  return all;
}

void LocalPart::begin() {
  for (const int rank : all_ranks()) {
    const auto started = options_.problem.empty()
                             ? start(rank)
                             : Result<void>(Error{ErrorKind::kSystem, options_.problem});
    if (!started) {
      at(rank).not_started(started.error().message, end_leaked(rank));
    }
  }
}

Result<void> LocalPart::start(int rank) {
  const std::string folder = rank_folder(place_.folder, rank);
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return Error::from_errno("make the folder " + folder, error.value());
  const StoreAddress store{options_.store_host, options_.store_port};
  ForkRank request{.key = key_of(rank),
                   .test = options_.test.id,
                   .mark = mark(rank),
                   .variables = rank_variables({.rank = rank,
                                                .ranks = options_.ranks,
                                                .local_rank = rank - options_.first,
                                                .local_ranks = options_.count,
                                                .node = options_.node,
                                                .nodes = options_.nodes,
                                                .folder = place_.folder,
                                                .backend = options_.backend,
                                                .seed = options_.seed,
                                                .is_debugged = options_.rank_under.has_value(),
                                                .store_host = options_.store_host,
                                                .store_port = options_.store_port,
                                                .store_text = store.text()}),
                   .folder = folder,
                   .fresh = options_.fresh};
  request.variables.insert(place_.variables.begin(), place_.variables.end());
  const bool has_terminal = rank == options_.rank_under;
  if (has_terminal) request.under = options_.under;
  auto descriptors = at(rank).open(has_terminal);
  if (!descriptors) return descriptors.error();
  place_.host->fork(request, std::move(*descriptors));
  return {};
}

std::string LocalPart::mark(int rank) const {
  return rank_mark(fmt::format("{}.{}", place_.nonce, key_of(rank)));
}

RankProcess::EndLeaked LocalPart::end_leaked(int rank) {
  return [this, rank] {
    return place_.leaked.end(fmt::format("{}={}", kRankMarkVariable, mark(rank)), kLeakedTimeout);
  };
}

bool LocalPart::has(std::uint64_t key) const {
  const std::uint64_t first = key_of(options_.first);
  return key >= first && key < first + static_cast<std::uint64_t>(options_.count);
}

void LocalPart::forked(const RankForked& forked, UniqueFd pidfd) {
  const int rank = rank_of(forked.key);
  at(rank).forked(forked, std::move(pidfd));
  if (is_suspended_ && rank != options_.rank_under) at(rank).send(SIGSTOP);
}

void LocalPart::not_forked(const RankNotForked& not_forked) {
  const int rank = rank_of(not_forked.key);
  at(rank).not_started(not_forked.problem, end_leaked(rank));
}

void LocalPart::ended(const RankEnded& ended) {
  const int rank = rank_of(ended.key);
  at(rank).ended(ended.end, end_leaked(rank));
}

bool LocalPart::has_reached_host() const {
  return place_.host == nullptr ? reached_lost_host_
                                : !place_.host->is_unsent(key_of(options_.first));
}

void LocalPart::host_lost() {
  reached_lost_host_ = has_reached_host();
  place_.host = nullptr;
  for (const int rank : all_ranks()) at(rank).host_lost(end_leaked(rank));
  if (waits_for_loss_ && !is_over_) give_facts();
}

// Not called from a pipe's handler: it may end the attempt.
void LocalPart::rank_over(int rank) {
  const RankOutcome outcome = outcome_of(options_.test.needs, rank, judged(at(rank).facts()));
  boost::asio::post(io_, [weak = weak_from_this(), rank, outcome] {
    const auto self = weak.lock();
    if (self && !self->is_over_) self->handlers_.on_over(rank, outcome);
  });
}

RankFacts LocalPart::judged(RankFacts facts) const {
  return options_.is_program ? judged_by_exit_status(std::move(facts)) : std::move(facts);
}

// For those of `wanted` that run.
std::vector<RankStacks> LocalPart::stacks_of(const std::vector<int>& wanted) {
  std::vector<int> running;
  std::vector<std::vector<pid_t>> pids;
  // A program may start others, as a shell does.
  auto groups = options_.is_program ? processes_by_group() : decltype(processes_by_group()){};
  for (const int rank : wanted) {
    const auto leader = at(rank).pid();
    if (!leader) continue;
    running.push_back(rank);
    pids.push_back({*leader});
    for (const pid_t pid : groups[*leader]) {
      if (pid != *leader) pids.back().push_back(pid);
    }
  }
  // Before the stacks, which may take seconds.
  auto awaited = handlers_.waits ? handlers_.waits() : WaitsOfProcesses{};
  auto all = place_.stacks.collect_groups(pids, kStacksTimeout);
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

PartView LocalPart::view_of(const std::vector<int>& wanted) {
  std::vector<std::pair<int, pid_t>> processes;
  for (const int rank : wanted) {
    if (const auto pid = at(rank).pid()) processes.emplace_back(rank, *pid);
  }
  PartView view;
  view.sockets = read_rank_sockets(processes);  // Before the stacks, as above.
  view.stacks = stacks_of(wanted);
  return view;
}

// Looks before any of them answers, because answering changes their places.
void LocalPart::ask(const std::vector<int>& ranks) {
  for (const int rank : ranks) at(rank).time_is_up();
  PartView view = view_of(ranks);
  const auto connections = connection_lines(view.sockets);
  for (const RankStacks& one : view.stacks) {
    at(one.rank).seen(place_of(one.rank, one.processes) +
                      connections_text(connections, "", one.rank));
  }
  handlers_.on_seen(std::move(view));
  for (const int rank : ranks) {
    if (!options_.is_program) {
      at(rank).ask();
      continue;
    }
    at(rank).take_seen_place();
    boost::asio::post(io_, [weak = weak_from_this(), rank] {
      const auto self = weak.lock();
      if (self && !self->is_over_) self->handlers_.on_answered(rank);
    });
  }
}

void LocalPart::look() {
  PartView view = view_of(all_ranks());
  for (const int rank : all_ranks()) {
    const bool can_answer = !options_.is_program && rank != options_.rank_under;
    if (can_answer && at(rank).ask_collective()) view.asked.push_back(rank);
  }
  handlers_.on_looked(std::move(view));
}

void LocalPart::end(int rank) { at(rank).end(); }

// The terminal stops the rank that uses it.
void LocalPart::signal_ranks(int signal) {
  for (const int rank : all_ranks()) {
    if (rank != options_.rank_under && !at(rank).has_ended()) at(rank).send(signal);
  }
}

bool LocalPart::all_are_known() const {
  return std::all_of(ranks_.begin(), ranks_.end(),
                     [](const auto& rank) { return rank->is_known(); });
}

void LocalPart::suspend() {
  is_suspended_ = true;
  signal_ranks(SIGSTOP);
}

void LocalPart::continue_ranks() {
  is_suspended_ = false;
  signal_ranks(SIGCONT);
}

// Another test may have blocked the host: its owner decides.
void LocalPart::finish(bool interrupted) {
  if (interrupted || place_.host == nullptr || !host_is_silent()) return give_facts();
  waits_for_loss_ = true;
  place_.host->give_up("it does not answer");
}

bool LocalPart::host_is_silent() const {
  return std::any_of(ranks_.begin(), ranks_.end(),
                     [](const auto& rank) { return rank->is_silent(); });
}

void LocalPart::give_facts() {
  is_over_ = true;
  std::vector<RankFacts> facts;
  for (const auto& rank : ranks_) {
    facts.push_back(judged(rank->take_facts()));
    name_functions(facts.back());
    rank->close();
  }
  std::error_code ignored;
  std::filesystem::remove_all(place_.folder, ignored);
  handlers_.on_facts(std::move(facts));
}

// A process that crashes could not name its functions.
void LocalPart::name_functions(RankFacts& rank) {
  const bool is_killed = rank.end && std::holds_alternative<KilledBy>(*rank.end);
  if (!is_killed && !rank.has_uncaught_exception()) return;
  if (rank.was_ended) return;
  // Python reports these signals. Others end a rank whose child may have reported a crash.
  constexpr std::array kReported = {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL};
  const int signal = is_killed ? std::get<KilledBy>(*rank.end).signal : 0;
  if (std::find(kReported.begin(), kReported.end(), signal) != kReported.end()) {
    rank.crashed_in = place_of_python_crash(rank.output);
  }
  rank.output = with_named_backtraces(rank.output, place_.stacks.names());
}

}  // namespace distrun

#include "testsuites/harness/run/rank_process.h"

#include <algorithm>
#include <csignal>
#include <string_view>
#include <utility>
#include <variant>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/os/process_stat.h"
#include "testsuites/harness/protocol/where_signal.h"
#include "testsuites/harness/run/rank_place.h"

namespace distrun {

namespace {

// After a rank exits, its pipes end within milliseconds, unless an unknown process holds them open.
constexpr std::chrono::seconds kPipesTimeout{1};

struct RankPipe {
  UniqueFd from, to;
};

Result<RankPipe> make_rank_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return Error::from_errno("open a pipe for a rank");
  return RankPipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

bool has_exited(const UniqueFd& pidfd) {
  if (!pidfd) return false;
  pollfd exit{pidfd.get(), POLLIN, 0};
  return ::poll(&exit, 1, 0) == 1;
}

constexpr const char* kSilent = "it does not answer\n";

bool is_stopped(char state) { return state == 'T' || state == 't'; }

// Describes a rank that did not answer.
std::string place_from_outside(pid_t pid) {
  const auto stat = read_process_stat(pid);
  if (!stat) return kSilent;
  if (is_stopped(stat->state)) return kStopped;
  if (stat->state == 'D') return "it does not answer: it waits in the kernel\n";
  return "it does not answer: all its threads are busy, or block signals\n";
}

}  // namespace

Result<std::vector<UniqueFd>> RankProcess::open(bool has_terminal) {
  auto result = make_rank_pipe();
  if (!result) return result.error();
  std::vector<UniqueFd> fds;
  if (has_terminal) {
    for (const int fd : {0, 1, 2}) fds.emplace_back(::fcntl(fd, F_DUPFD_CLOEXEC, 3));
  } else {
    auto out = make_rank_pipe(), err = make_rank_pipe();
    if (!out) return out.error();
    if (!err) return err.error();
    fds.emplace_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    fds.push_back(std::move(out->to));
    fds.push_back(std::move(err->to));
    read_output(std::move(out->from));
    read_output(std::move(err->from));
  }
  read_results(std::move(result->from));
  fds.push_back(std::move(result->to));
  for (const UniqueFd& fd : fds) {
    if (!fd) return Error{ErrorKind::kSystem, "open a rank's descriptors: too many are open"};
  }
  return fds;
}

void RankProcess::read_output(UniqueFd pipe) {
  read(std::move(pipe), [this](std::string_view bytes) { output_.add(bytes); });
}

void RankProcess::read_results(UniqueFd pipe) {
  read(std::move(pipe), [this](std::string_view bytes) {
    frames_.add(bytes);
    while (const auto frame = frames_.next()) {
      std::visit([this](const auto& what) { take(what); }, *frame);
    }
  });
  results_ = pipes_.back().get();
}

void RankProcess::read(UniqueFd pipe, std::function<void(std::string_view)> on_bytes) {
  pipes_.push_back(std::make_unique<PipeReader>(io_, std::move(pipe), std::move(on_bytes),
                                                [this] { look_whether_over(); }));
}

void RankProcess::take(const AssertionFailed& failed) {
  constexpr std::size_t kFailuresMax = 100;
  if (facts_.was_late) return;
  note();
  if (facts_.failures.size() < kFailuresMax) {
    facts_.failures.push_back(failed.failure);
  } else {
    ++facts_.failures_lost;
  }
}

void RankProcess::take(const SkipAsked& skip) {
  if (!facts_.was_late) facts_.skip_reason = skip.reason;
}

void RankProcess::take(const PlaceTold& place) {
  // The first line is about collectives.
  const std::string told = place.text.substr(0, place.text.find('\n')) + '\n';
  seen_at_.empty() ? note_place(place.text, place.text) : note_place(told, told + seen_at_);
  if (!facts_.is_done) facts_.collectives = place.collectives;
  handlers_.on_answered();
}

void RankProcess::take(const TestDone& done) {
  if (facts_.was_late) return;
  facts_.is_done = true;
  facts_.assertions = done.assertions;
  facts_.collectives = done.collectives;
}

void RankProcess::note() {
  if (!std::exchange(noted_, true)) handlers_.on_noted();
}

void RankProcess::forked(const RankForked& forked, UniqueFd pidfd) {
  facts_.began_at = forked.at;
  pid_ = forked.pid;
  pidfd_ = std::move(pidfd);
  if (to_be_ended_) end();
}

void RankProcess::not_started(const std::string& problem, const EndLeaked& end_leaked) {
  facts_.not_started = problem;
  see_end(end_leaked);
}

void RankProcess::ended(const std::optional<ProcessEnd>& how, const EndLeaked& end_leaked) {
  facts_.end = how;
  see_end(end_leaked);
}

void RankProcess::host_lost(const EndLeaked& end_leaked) {
  if (end_seen_) return;
  facts_.host_lost = true;
  send(SIGKILL);
  see_end(end_leaked);
}

void RankProcess::see_end(const EndLeaked& end_leaked) {
  if (std::exchange(end_seen_, true)) return;
  facts_.ended_at = wall_time_now();
  note();
  facts_.leaked = end_leaked();
  // If the host died, the rank itself is among them.
  std::erase_if(facts_.leaked, [this](const std::string& one) {
    return one.starts_with(fmt::format("{} (", pid_));
  });
  pipes_timer_ = std::make_unique<boost::asio::steady_timer>(io_, kPipesTimeout);
  pipes_timer_->async_wait([self = shared_from_this()](boost::system::error_code error) {
    if (!error) self->drain();
  });
  look_whether_over();
}

void RankProcess::drain() {
  for (const auto& pipe : pipes_) {
    // The pipe may have ended unnoticed.
    if (pipe->drain()) continue;
    if (facts_.leaked.empty()) {
      facts_.leaked.emplace_back("a process that holds its output and was not found");
    }
    pipe->give_up();
  }
}

void RankProcess::look_whether_over() {
  if (!end_seen_ || is_over_) return;
  for (const auto& pipe : pipes_) {
    if (!pipe->has_ended()) return;
  }
  is_over_ = true;
  pipes_timer_->cancel();
  facts_.sent_garbage = frames_.is_garbage() || (frames_.is_within_frame() && facts_.end &&
                                                 std::holds_alternative<ExitedWith>(*facts_.end));
  handlers_.on_over();
}

// First read the results that were sent before.
void RankProcess::time_is_up() {
  if (results_ != nullptr) results_->read_what_is_there();
  facts_.was_late = !end_seen_ && !facts_.is_done && !has_exited(pidfd_);
}

void RankProcess::ask() {
  asked_ = true;
  send(where_signal());
}

bool RankProcess::ask_collective() const {
  const auto stat = pid() ? read_process_stat(*pid()) : std::nullopt;
  if (!stat || is_stopped(stat->state)) return false;
  send(collective_signal());
  return true;
}

void RankProcess::take_seen_place() {
  const std::string unknown = seen_at_.empty() ? "its call stack could not be read\n" : "";
  note_place(unknown, unknown + seen_at_);
}

void RankProcess::note_place(std::string told, std::string all) {
  facts_.told = std::move(told);
  facts_.stands_at = std::move(all);
}

void RankProcess::end() {
  to_be_ended_ = true;
  if (!pidfd_ || end_seen_) return;
  facts_.was_ended = true;
  if (asked_ && facts_.stands_at.empty()) {
    const std::string outside = place_from_outside(pid_);
    if (seen_at_.empty()) {
      note_place(outside, outside);
    } else if (seen_at_.starts_with(kStopped)) {
      note_place(kStopped, seen_at_);
    } else {
      note_place(kSilent, kSilent + seen_at_);
    }
  }
  send(SIGKILL);
}

void RankProcess::send(int signal) const {
  if (pidfd_) ::syscall(SYS_pidfd_send_signal, pidfd_.get(), signal, nullptr, 0);
}

bool RankProcess::is_silent() const { return !end_seen_ && (!pidfd_ || has_exited(pidfd_)); }

RankFacts RankProcess::take_facts() {
  facts_.output = output_.text();
  facts_.output_lost = output_.lost();
  if (facts_.failures_lost > 0) {
    facts_.failures.push_back(
        {.file = "", .message = fmt::format("{} more, which are not kept", facts_.failures_lost)});
  }
  facts_.was_ended = facts_.was_ended || !end_seen_;
  return std::move(facts_);
}

}  // namespace distrun

// RankProcess is the runner's side of one rank of an attempt: its process, output, results and end.
//
//     auto rank = std::make_shared<RankProcess>(io, std::move(handlers));
//     auto descriptors = rank->open(/*has_terminal=*/false);        // for the host, which forks
//     rank->forked(pid, std::move(pidfd));
//     rank->ended(how, [&] { return leaked.end(mark, timeout); });
//     …                                                             // on_over
//     rank->take_facts();
//
// After close() output is no longer read, but the end is still reported.
// Threads: only the thread of `io`.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <sys/types.h>

#include "common/os/unique_fd.h"
#include "common/text/captured_text.h"
#include "distrun/result.h"
#include "testsuites/harness/protocol/host_messages.h"
#include "testsuites/harness/protocol/rank_frames.h"
#include "testsuites/harness/run/pipe_reader.h"
#include "testsuites/harness/run/verdict.h"

namespace distrun {

class RankProcess : public std::enable_shared_from_this<RankProcess> {
 public:
  struct Handlers {
    std::function<void()> on_noted;                         // It has ended or failed; once.
    std::function<void()> on_answered;                      // It answered ask().
    std::function<void(const std::string&)> on_collective;  // It answered ask_collective().
    std::function<void()> on_over;                          // Process and output have ended.
  };
  // Kills the processes that the rank leaked, and returns them: "1234 (sleep)".
  using EndLeaked = std::function<std::vector<std::string>()>;

  RankProcess(boost::asio::io_context& io, Handlers handlers)
      : io_(io), handlers_(std::move(handlers)) {}

  // Returns the rank's stdin, stdout, stderr and result channel. With the terminal, the first three
  // are this process's.
  Result<std::vector<UniqueFd>> open(bool has_terminal);

  void forked(const RankForked& forked, UniqueFd pidfd);

  // The process ended or never existed. Only the first call counts.
  void ended(const std::optional<ProcessEnd>& how, const EndLeaked& end_leaked);
  void not_started(const std::string& problem, const EndLeaked& end_leaked);
  void host_lost(const EndLeaked& end_leaked);

  std::optional<pid_t> pid() const {
    return pidfd_ && !end_seen_ ? std::optional(pid_) : std::nullopt;
  }
  // Later results do not count.
  void time_is_up();
  // Its place, read from outside; may be empty.
  void seen(std::string place) { seen_at_ = std::move(place); }
  // Asks for its collectives, and for its stack unless that was seen. Requires time_is_up().
  void ask();
  // Asks for its current collective, if the process can answer; it goes on. False if not asked.
  bool ask_collective() const;
  // For a rank that cannot answer: its place is the one that was seen.
  void take_seen_place();
  // Kills the process, once it is known.
  void end();
  void send(int signal) const;

  bool has_ended() const { return end_seen_; }

  bool is_known() const { return end_seen_ || pidfd_; }
  // The host owes a message about this rank.
  bool is_silent() const;

  const RankFacts& facts() const { return facts_; }
  RankFacts take_facts();
  void close() { pipes_.clear(); }

 private:
  void read(UniqueFd pipe, std::function<void(std::string_view)> on_bytes);
  void read_output(UniqueFd pipe);
  void read_results(UniqueFd pipe);
  void take(const AssertionFailed& failed);
  void take(const SkipAsked& skip);
  void take(const PlaceTold& place);
  void take(const CollectiveTold& told) { handlers_.on_collective(told.text); }
  void note_place(std::string told, std::string all);
  void take(const TestDone& done);
  void note();
  void see_end(const EndLeaked& end_leaked);
  void drain();
  void look_whether_over();

  boost::asio::io_context& io_;
  const Handlers handlers_;
  RankFacts facts_;
  pid_t pid_ = -1;
  UniqueFd pidfd_;
  RankFrames frames_;
  CapturedText output_;
  std::vector<std::unique_ptr<PipeReader>> pipes_;
  PipeReader* results_ = nullptr;  // Points into pipes_.
  std::unique_ptr<boost::asio::steady_timer> pipes_timer_;
  bool noted_ = false;     // on_noted was called.
  bool end_seen_ = false;  // Its pipes may still be open.
  bool is_over_ = false;
  bool to_be_ended_ = false;
  bool asked_ = false;   // ask() was called.
  std::string seen_at_;  // From seen().
};

}  // namespace distrun

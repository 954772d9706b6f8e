// RunOutput passes the workers' output to distrun's stdout and stderr and to log files, as
// LaunchOptions::log says.
//
//     RunOutput output(io, plan, folder, {.out = 1, .err = 2}, on_lost);
//     output.begin_attempt(0);
//     auto given = output.open(LocalRank(0));        // its descriptors 1 and 2
//     if (!given) return given.error();              // "open …/stdout.log: permission denied"
//     … start the worker with them, drop them …
//     output.watch(LocalRank(0), [&] { … all its output has been read … });
//     if (output.close(LocalRank(0))) … a leaked process still held its output open …
//     output.last_output(LocalRank(0))
//
// A worker writes redirected streams to their files itself, and distrun does not see errors.
// distrun reads other streams (output_relay.h) and passes them on (stream_output.h). If stdout and
// stderr are the same terminal, pipe or file, they are one console, and their lines do not mix.
//
// Thread safety: the thread of `io` only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include <boost/asio/io_context.hpp>

#include "common/os/unique_fd.h"
#include "common/rank.h"
#include "distrun/result.h"
#include "launcher/plan/plan.h"

namespace distrun {

class RunOutput {
 public:
  struct Consoles {
    int out = 1, err = 2;   // The caller's; must stay open while this lives.
    bool captures = false;  // Keeps output for captured().
    // Gets all that goes to the consoles, if set. If they are one console, all of it is stdout's.
    std::function<void(Stream stream, std::string_view bytes)> copy = {};
  };
  struct Lost {
    bool reader_gone = false;  // The console's reader has closed.
    Error error;
  };
  // `folder` is RunFiles::folder. The loop calls `on_lost` once per console or file that can no
  // longer be written. Throws like OutputSink's constructor.
  RunOutput(boost::asio::io_context& io, const LaunchPlan& plan, std::string folder,
            Consoles consoles, std::function<void(const Lost&)> on_lost);
  ~RunOutput();
  RunOutput(const RunOutput&) = delete;
  RunOutput& operator=(const RunOutput&) = delete;

  // Forgets the output of the previous attempt; its files remain.
  void begin_attempt(int attempt);

  // Creates the worker's folder and files.
  struct Descriptors {
    UniqueFd out, err;
  };
  Result<Descriptors> open(LocalRank worker);

  // Requires a started worker. The loop calls `on_end` once, when all its output has ended; at once
  // if distrun reads none of it.
  void watch(LocalRank worker, std::function<void()> on_end);

  // Reads what is available now, for last_output().
  void take(LocalRank worker);

  // Reads what is available, then stops. Returns whether another process held the output open.
  bool close(LocalRank worker);

  // The last lines on stderr, or on stdout if stderr is empty.
  std::string last_output(LocalRank worker) const;

  // The output that distrun has read from the worker, shortened (captured_text.h). Empty unless
  // Consoles::captures.
  std::string captured(LocalRank worker) const;

  // How much a worker, or all workers, have written in this attempt.
  std::uint64_t bytes(LocalRank worker) const;
  std::uint64_t bytes() const;

  // Whether a console is full, so that workers may have to wait.
  bool is_held_up() const;

  // The folder of its log files; empty if none.
  std::string log_folder(LocalRank worker) const;

  // Calls `act` once the consoles have taken everything.
  void when_drained(std::function<void()> act);

  // Prints whole lines to stderr, among the workers' lines.
  void say(std::string_view text);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace distrun

// RunOutput is where all goes that the workers of a run print: to distrun's own stdout and stderr,
// and to log files, as LaunchOptions::log has it.
//
//     RunOutput output(io, plan, folder, {.out = 1, .err = 2}, on_lost);
//     output.begin_attempt(0);
//     auto given = output.open(LocalRank(0));        // its descriptors 1 and 2
//     if (!given) return given.error();              // "open …/stdout.log: permission denied"
//     … start the worker with them, drop them …
//     output.watch(LocalRank(0), [&] { … all that it has printed has been read … });
//     if (output.close(LocalRank(0))) … a leaked process still held its output open …
//     output.last_output(LocalRank(0))
//
// A stream that is only redirected has no pipe: the worker writes to its file itself, and what
// becomes of that is its own affair.  Every other one is read here (output_relay.h) and passed on
// (stream_output.h).  Where stdout and stderr of distrun are the same terminal, pipe or file, they
// are one console: lines of one never land inside those of the other.
//
// Threads: every method runs on the thread of `io`.
#pragma once

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
    int out = 1, err = 2;  // The caller's, and open for as long as this lives.
  };
  struct Lost {
    bool reader_gone = false;  // Nobody reads the console any more.
    Error error;
  };
  // `folder` is that of the run's files (run_files.h).  `on_lost` is called, from the loop, once
  // for each console or file that can be written no more.  Throws as OutputSink's constructor.
  RunOutput(boost::asio::io_context& io, const LaunchPlan& plan, std::string folder,
            Consoles consoles, std::function<void(const Lost&)> on_lost);
  ~RunOutput();
  RunOutput(const RunOutput&) = delete;
  RunOutput& operator=(const RunOutput&) = delete;

  // What the workers of the attempt before have printed is forgotten, and their files stay.
  void begin_attempt(int attempt);

  // What the worker gets as its stdout and stderr.  Makes its folder and files.
  struct Descriptors {
    UniqueFd out, err;
  };
  Result<Descriptors> open(LocalRank worker);

  // The worker has been started.  `on_end` is called once, from the loop, when all of its output
  // has ended; at once where it has none that is read here.
  void watch(LocalRank worker, std::function<void()> on_end);

  // Takes what is there now, before its turn in the loop: for last_output().
  void take(LocalRank worker);

  // Takes what is there, then no more.  Returns whether somebody still held it open.
  bool close(LocalRank worker);

  // The last lines it has written to stderr, or, where it has written none, to stdout.
  std::string last_output(LocalRank worker) const;

  // Where its log files are; empty where it has none.
  std::string log_folder(LocalRank worker) const;

  // Calls `act` once when the consoles have taken everything.
  void when_drained(std::function<void()> act);

  // What distrun itself has to say: whole lines, to its stderr, among those of the workers.
  void say(std::string_view text);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace distrun

// RunNews is what a run has to tell while it goes on: the driver tells it, and who listens
// (the lines that distrun prints, the file of --events) makes of it what it likes.
//
//     run_launch(plan, files, {.on_news = [&](const RunNews& news) {
//       if (const auto* failed = std::get_if<AttemptFailed>(&news)) return …;
//       return std::string();
//     }});
//
// In the order in which things happened, RunBegan first and RunEnded last.  A listener is called
// on the run's thread, between two events: it must neither block nor call back.
#pragma once

#include <chrono>
#include <string>
#include <variant>
#include <vector>

#include <sys/types.h>

#include "common/rank.h"
#include "distrun/process_end.h"
#include "launcher/outcome/run_end.h"
#include "launcher/process/descendants.h"

namespace distrun {

struct RunBegan {
  pid_t launcher_pid = -1;
  std::string store;  // "127.0.0.1:29500", or the file's URL.
};
struct NodesNoticed {  // Of several nodes: who is waited for, who has been turned away.
  std::string text;
};
struct AttemptBegan {
  int attempt = 0;
};
struct WorkerBegan {
  int attempt = 0;
  LocalRank worker;
  pid_t pid = -1;
};
struct WorkerEnded {
  int attempt = 0;
  LocalRank worker;
  pid_t pid = -1;
  ProcessEnd end;
  std::chrono::milliseconds run_time{0};
};
struct OutputHeld {  // The worker has ended; something else still held its output open.
  LocalRank worker;
};
struct LeftoversEnded {
  std::vector<Leftover> processes;
};
struct Signalled {  // distrun got a signal.
  int signal = 0;
  bool forwarded = false;  // To the workers; else it ends the run.
};
struct Suspended {};  // Ctrl-Z.
struct Continued {};
struct AttemptFailed {  // Another one follows.
  int attempt = 0;
  RunEnd end;
};
struct RunEnded {
  RunEnd end;
};

using RunNews =
    std::variant<RunBegan, NodesNoticed, AttemptBegan, WorkerBegan, WorkerEnded, OutputHeld,
                 LeftoversEnded, Signalled, Suspended, Continued, AttemptFailed, RunEnded>;

}  // namespace distrun

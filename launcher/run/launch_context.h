// LaunchContext is what a run gets from the process in which it takes place.
#pragma once

#include <functional>
#include <string>

#include "launcher/outcome/run_event.h"
#include "launcher/outcome/run_report.h"
#include "launcher/process/guard.h"

namespace distrun {

struct LaunchContext {
  int out = 1, err = 2;  // Where the workers' lines go.
  int in = 0;            // What local rank 0 reads; -1: nothing.
  GuardLifeline lifeline;
  std::string host;  // This machine's name, for people.

  // What distrun itself has to say: whole lines, or nothing.  They go to `err` among the workers'
  // lines, so who does not read them holds up no more than those.  Each may be empty.
  std::function<std::string(const RunEvent& event)> on_event;
  std::function<std::string(const RunReport& report)> summary;  // The last that is written.
};

}  // namespace distrun

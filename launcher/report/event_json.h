// A run event as JSON: the lines of `--events`.
//
//     event_json(WorkerEnded{.worker = LocalRank(1), .pid = 4711, .end = ExitedWith{3}}, plan,
//               "node7", std::chrono::system_clock::now())
//     // {"time":"2026-03-01T12:00:00.250Z","event":"worker_ended","run_id":…,"rank":1,…}
//
// docs/events.md lists the fields. Pure.
#pragma once

#include <chrono>
#include <string>

#include "launcher/outcome/run_event.h"
#include "launcher/plan/plan.h"

namespace distrun {

// "worker_ended"
const char* event_name(const RunEvent& event);

// One line without newline. `host` is this node's name, `at` the time of the event.
std::string event_json(const RunEvent& event, const LaunchPlan& plan, const std::string& host,
                       std::chrono::system_clock::time_point at);

}  // namespace distrun

// What distrun says on stderr while a run goes on: little.
//
//     distrun: rank 1 failed: exit code 3; restarting (1 of 2)
//
// Pure.
#pragma once

#include <string>

#include "launcher/outcome/run_news.h"
#include "launcher/plan/plan.h"

namespace distrun {

// A whole line, or nothing where the news is not worth one.
std::string news_line(const LaunchPlan& plan, const RunNews& news);

}  // namespace distrun

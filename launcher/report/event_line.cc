#include "launcher/report/event_line.h"

#include <fmt/format.h>

#include "launcher/report/summary.h"

namespace distrun {

std::string event_line(const LaunchPlan& plan, const RunEvent& event) {
  if (const auto* failed = std::get_if<AttemptFailed>(&event)) {
    return fmt::format("distrun: {}; restarting ({} of {})\n", headline(plan, failed->end),
                       failed->attempt + 1, plan.options.max_restarts);
  }
  if (const auto* noticed = std::get_if<NodeNotice>(&event)) {
    return fmt::format("distrun: {}\n", noticed->text);
  }
  return "";
}

}  // namespace distrun

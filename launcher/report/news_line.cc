#include "launcher/report/news_line.h"

#include <fmt/format.h>

#include "launcher/report/summary.h"

namespace distrun {

std::string news_line(const LaunchPlan& plan, const RunNews& news) {
  if (const auto* failed = std::get_if<AttemptFailed>(&news)) {
    return fmt::format("distrun: {}; restarting ({} of {})\n", headline(plan, failed->end),
                       failed->attempt + 1, plan.options.max_restarts);
  }
  if (const auto* noticed = std::get_if<NodesNoticed>(&news)) {
    return fmt::format("distrun: {}\n", noticed->text);
  }
  return "";
}

}  // namespace distrun

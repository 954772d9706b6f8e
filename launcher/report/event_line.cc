#include "launcher/report/event_line.h"

#include <chrono>
#include <csignal>
#include <vector>

#include <fmt/format.h>

#include "launcher/report/summary.h"

namespace distrun {

namespace {

constexpr std::size_t kNamedWorkersMax = 8;

// "rank 1 (pid 4711) and rank 3 (pid 4713)", "rank 0 (pid 4710), … and 56 others".
std::string names_of(const LaunchPlan& plan,
                     const std::vector<WorkersStillRunning::Worker>& workers) {
  const bool too_many = workers.size() > kNamedWorkersMax + 1;  // Not "and 1 others".
  const std::size_t named = too_many ? kNamedWorkersMax : workers.size();
  std::string text;
  for (std::size_t i = 0; i < named; ++i) {
    if (i > 0) text += i + 1 == workers.size() ? " and " : ", ";
    const auto local_rank = static_cast<std::size_t>(workers[i].worker.value());
    text += fmt::format("rank {} (pid {})", plan.workers[local_rank].rank.value(), workers[i].pid);
  }
  if (too_many) text += fmt::format(" and {} others", workers.size() - named);
  return text;
}

std::string still_running_line(const LaunchPlan& plan, const WorkersStillRunning& event) {
  std::string line = fmt::format("distrun: {} still {}", names_of(plan, event.workers),
                                 event.workers.size() == 1 ? "runs" : "run");
  if (event.until_kill) {
    line += fmt::format("; SIGKILL follows in {} s",
                        std::chrono::ceil<std::chrono::seconds>(*event.until_kill).count());
  }
  if (event.signal) {
    line += event.until_kill ? ", or at once " : "; SIGKILL follows ";
    line += event.signal == SIGINT ? "if you press Ctrl-C again"
                                   : "after a second " + signal_name(*event.signal);
  }
  return line + '\n';
}

}  // namespace

std::string event_line(const LaunchPlan& plan, const RunEvent& event) {
  if (const auto* failed = std::get_if<AttemptFailed>(&event)) {
    if (!tells_end(plan, failed->end)) return "";
    return fmt::format("distrun: {}; restarting ({} of {})\n", headline(plan, failed->end),
                       failed->attempt + 1, plan.options.max_restarts);
  }
  if (const auto* noticed = std::get_if<NodeNotice>(&event)) {
    return fmt::format("distrun: {}\n", noticed->text);
  }
  if (const auto* still = std::get_if<WorkersStillRunning>(&event)) {
    return still_running_line(plan, *still);
  }
  if (const auto* found = std::get_if<StragglerFound>(&event)) {
    if (!plan.options.collectives && !plan.options.digest) return "";  // Nobody asked.
    return fmt::format("distrun: {}\n", text_of(found->straggler));
  }
  if (const auto* found = std::get_if<CallsDiffer>(&event)) {
    return fmt::format("distrun: ranks disagree: {}\n", text_of(found->difference));
  }
  if (const auto* found = std::get_if<ValuesDiffer>(&event)) {
    return fmt::format("distrun: {}\n", text_of(found->difference));
  }
  if (const auto* compared = std::get_if<ValuesCompared>(&event)) {
    if (compared->missed == 0) return "";
    return fmt::format(
        "distrun: --digest: {} operations of the ranks were too fast to be compared\n",
        compared->missed);
  }
  if (const auto* found = std::get_if<RecordingDiffers>(&event)) {
    return fmt::format("distrun: {}\n", text_of(found->difference));
  }
  if (const auto* compared = std::get_if<RecordingCompared>(&event)) {
    if (!compared->is_same) return "";
    if (compared->collectives == 0) {
      return "distrun: --compare-digests: no collective was compared; docs/collectives.md says "
             "which "
             "ones distrun sees\n";
    }
    if (compared->collectives < compared->recorded) {
      return fmt::format(
          "distrun: --compare-digests: no difference, but only {} of {} recorded collectives were "
          "compared\n",
          compared->collectives, compared->recorded);
    }
    return fmt::format("distrun: --compare-digests: {} collectives compared, no difference\n",
                       compared->collectives);
  }
  if (const auto* stacks = std::get_if<StacksRead>(&event)) {
    if (!stacks->prints) return "";
    const auto& [line, tree] = stacks->where;
    std::string collectives = stacks->collectives();
    if (!collectives.empty()) collectives = fmt::format("distrun: collectives: {}\n", collectives);
    if (!stacks->nccl.empty()) collectives += fmt::format("distrun: NCCL: {}\n", stacks->nccl);
    if (line.empty() && tree.empty()) return collectives;  // No worker is left.
    return collectives + fmt::format("distrun: where the workers are:{}{}\n{}",
                                     line.empty() ? "" : " ", line, tree);
  }
  return "";
}

}  // namespace distrun

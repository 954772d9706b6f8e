#include "launcher/run/run_collectives.h"

#include <chrono>
#include <cstddef>
#include <utility>

#include <fmt/format.h>

namespace distrun {

namespace {

// What node 0 knows of nodes that are not silent is not older than that.
constexpr std::chrono::seconds kAgeMax{3};

}  // namespace

RunCollectives::RunCollectives(boost::asio::io_context& io, const LaunchPlan& plan, NodeLink& nodes,
                               const LaunchContext& context,
                               std::function<void(const RunEvent&)> tell)
    : plan_(plan),
      nodes_(nodes),
      context_(context),
      tell_(std::move(tell)),
      is_other_node_(nodes.has_others() && !nodes.is_node_0()),
      check_({.sees_all_ranks = !is_other_node_,
              .digests = plan.options.digest,
              .recorded = context.recorded},
             check_handlers(context)),
      watch_(io, plan, watch_handlers()) {}

OperationWatch::Handlers RunCollectives::watch_handlers() {
  return {.on_operation =
              [this](const WorkerPlan& worker, const Operation& operation) {
                if (context_.on_operation) context_.on_operation(worker.local_rank, operation);
                has_collectives_ = true;
                check_.add(worker.rank.value(), operation);
                if (is_other_node_ && operation.is_collective()) {
                  to_send_.push_back({worker.rank, operation});
                }
              },
          .on_missed =
              [this](const WorkerPlan& worker, std::uint64_t missed) {
                if (context_.on_missed) context_.on_missed(worker.local_rank, missed);
                check_.miss(missed);
                incomplete_.insert(worker.rank.value());
                missed_to_send_ += missed;
              },
          .on_read = [this] { pass_on(); }};
}

CollectiveCheck::Handlers RunCollectives::check_handlers(const LaunchContext& context) {
  return {
      .on_straggler =
          [this](const Straggler& straggler) {
            tell_(StragglerFound{attempt_, straggler});
          },
      .on_unlike_calls =
          [this](const CallDifference& difference) {
            if (disagreement_.empty()) disagreement_ = text_of(difference);
            tell_(CallsDiffer{attempt_, difference});
          },
      .on_difference =
          [this](const DigestDifference& difference) {
            tell_(ValuesDiffer{attempt_, difference});
          },
      .on_record_difference =
          [this](const RecordDifference& difference) {
            tell_(RecordingDiffers{attempt_, difference});
          },
      .on_ended = context.on_collective,
      .on_record_compared =
          [this](const RecordedDigests& recorded, bool is_same) {
            tell_(RecordingCompared{attempt_, recorded.compared(), recorded.recorded(), is_same});
          },
      .on_compared =
          [this](std::uint64_t compared, std::uint64_t missed) {
            tell_(ValuesCompared{attempt_, compared, missed});
          }};
}

void RunCollectives::begin_attempt(int attempt) {
  attempt_ = attempt;
  has_ended_ = false;
  disagreement_.clear();
  incomplete_.clear();
  has_collectives_ = false;
  to_send_.clear();
  missed_to_send_ = 0;
  check_.begin();
  warn_of_other_world_size();
  watch_.begin_attempt();
}

// With one node, the run does not start then. With several, the ranks are known only now.
void RunCollectives::warn_of_other_world_size() {
  if (attempt_ > 0 || context_.recorded == nullptr) return;
  const int recorded = context_.recorded->world_size();
  if (recorded == plan_.world_size) return;
  tell_(NodeNotice{fmt::format(
      "--compare-digests: the recorded run had {} ranks, and this run has {}; start {} ranks",
      recorded, plan_.world_size, recorded)});
}

void RunCollectives::pass_on() {
  check_.judge();
  if (!is_other_node_) return;
  nodes_.send_operations(attempt_, std::exchange(to_send_, {}), std::exchange(missed_to_send_, 0));
}

void RunCollectives::take(const NodeOperations& operations) {
  if (has_ended_ || operations.attempt != attempt_) return;
  if (operations.missed > 0) check_.lose_ends(operations.node);
  has_collectives_ = has_collectives_ || !operations.operations.empty();
  for (const auto& [rank, operation] : operations.operations) check_.add(rank.value(), operation);
  check_.miss(operations.missed);
  check_.judge();
}

void RunCollectives::end_workers() {
  watch_.end();
  if (!nodes_.has_others()) end_attempt();
}

void RunCollectives::end_attempt() {
  if (std::exchange(has_ended_, true)) return;
  check_.end();
  warn_of_no_collectives();
}

// Otherwise, users would believe that all values are the same.
void RunCollectives::warn_of_no_collectives() {
  const LaunchOptions& options = plan_.options;
  if (!options.expects_collectives || has_collectives_ || is_other_node_) return;
  tell_(NodeNotice{fmt::format(
      "{}: no collective was recorded; docs/collectives.md says which ones distrun sees",
      options.digest ? "--digest" : "--collectives")});
}

std::string RunCollectives::disagreement(const RunEnd& end) const {
  if (!disagreement_.empty()) return disagreement_;
  if (!end.culprit) return "";
  CollectiveTable::Others others;
  for (const WorkerPlan& worker : plan_.workers) {
    const int rank = worker.rank.value();
    const auto& its_end = end.workers[static_cast<std::size_t>(worker.local_rank.value())].end;
    if (!its_end || incomplete_.contains(rank)) continue;
    if (succeeded(*its_end)) {
      others.finished.insert(rank);
    } else {
      others.stopped.insert(rank);
    }
  }
  const auto culprit = static_cast<std::size_t>(end.culprit->value());
  return check_.missing_in_last_of(plan_.workers[culprit].rank.value(), others);
}

std::string RunCollectives::line() {
  watch_.read_all();
  // Ranks may hang before they enter their first collective.
  for (const LocalRank worker : watch_.recording()) {
    check_.know_rank(plan_.workers[static_cast<std::size_t>(worker.value())].rank.value());
  }
  if (!nodes_.is_node_0()) return check_.line({});
  CollectiveTable::Unknown unknown{.since = std::chrono::system_clock::now() - kAgeMax};
  std::string silent;
  for (const RanksOfNode& node : nodes_.silent()) {
    for (int i = 0; i < node.count; ++i) unknown.ranks.insert(node.first + i);
    silent += fmt::format("; node {} ({}) has not answered lately", node.node, node.host);
  }
  const std::string line = check_.line(unknown);
  return line.empty() ? line : line + silent;
}

}  // namespace distrun

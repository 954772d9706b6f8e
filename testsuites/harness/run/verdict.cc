#include "testsuites/harness/run/verdict.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/text/rank_list.h"
#include "common/text/text_cut.h"
#include "testsuites/harness/protocol/rank_variables.h"
#include "testsuites/harness/run/divergence.h"

namespace distrun {

namespace {

// A rank's status and the reason.
struct Finding {
  RankStatus status = RankStatus::kPassed;
  std::string text;  // "made no assertion"; empty if nothing is wrong.
  bool is_consequence = false;
};

// Makes one short line of a message.
std::string in_one_line(const std::string& text) {
  constexpr std::size_t kBytesMax = 160;
  std::string line;
  for (const char c : text) {
    const bool is_space = c == ' ' || c == '\n' || c == '\t';
    if (!is_space) {
      line += c;
    } else if (!line.empty() && line.back() != ' ') {
      line += ' ';
    }
  }
  if (line.ends_with(' ')) line.pop_back();
  return shortened(line, kBytesMax);
}

std::string failure_text(const AssertionFailure& failure) {
  const auto slash = failure.file.rfind('/');
  const std::string file =
      slash == std::string::npos ? failure.file : failure.file.substr(slash + 1);
  // Python's follows the message.
  const std::string message =
      in_one_line(failure.message.substr(0, failure.message.find("\n\nTraceback ")));
  return file.empty() ? message : fmt::format("{}:{}: {}", file, failure.line, message);
}

// Whether a broken connection made the rank throw: words of distrun's collectives, Gloo and NCCL.
bool reports_lost_peer(const RankFacts& facts) {
  if (facts.failures.empty() || facts.failed_by_assertion()) return false;
  const std::string& message = facts.failures.front().message;
  const auto says = [&](const char* words) { return message.find(words) != message.npos; };
  return says("the connection to rank ") || says("Connection closed by peer") ||
         says("Connection reset by peer") || says("Broken pipe") ||
         says("remote process exited or there was a network error");
}

Finding find_expected(const ProcessEnd& expected, const RankFacts& facts) {
  const bool exits = std::holds_alternative<ExitedWith>(expected);
  const bool is_too_late = exits && facts.is_done;
  const bool is_by_itself = facts.end && !facts.was_ended && !facts.was_late;
  if (is_by_itself && facts.end == expected && !facts.host_lost && !is_too_late) return {};
  const std::string became = !is_by_itself ? "it did not end on its own"
                             : is_too_late ? "its test finished first"
                                           : "it ended with " + describe(*facts.end);
  return {RankStatus::kFailed, fmt::format("expected {}, but {}", describe(expected), became)};
}

Finding find_end(const RankFacts& facts) {
  if (!facts.node_lost.empty()) return {RankStatus::kCrashed, facts.node_lost};
  if (facts.host_lost) return {RankStatus::kCrashed, "the process that forked it is lost"};
  if (facts.was_ended || facts.was_late || !facts.end) {
    return {RankStatus::kTimedOut, facts.is_done ? "did not exit after its test finished" : "hung",
            /*is_consequence=*/!facts.is_done};
  }
  if (std::holds_alternative<KilledBy>(*facts.end)) {
    const std::string place = facts.crashed_in.empty() ? "" : " in " + facts.crashed_in;
    return {RankStatus::kCrashed, describe(*facts.end) + place};
  }
  if (!facts.is_done && facts.end == ProcessEnd(ExitedWith{kExitWithoutChannel})) {
    return {RankStatus::kFailed, "closed the descriptor of its result channel"};
  }
  if (!facts.is_done) {
    return {RankStatus::kExited, "exited during its test: " + describe(*facts.end)};
  }
  if (*facts.end != ProcessEnd(ExitedWith{0})) {  // A failure may not have been reported.
    return {RankStatus::kFailed, "its test finished, but it ended with " + describe(*facts.end)};
  }
  return {};
}

Finding find(const TestNeeds& needs, int rank, const RankFacts& facts) {
  if (facts.not_started) {
    return {RankStatus::kFailed, "could not be started: " + *facts.not_started};
  }
  if (!facts.failures.empty()) return {RankStatus::kFailed, failure_text(facts.failures.front())};
  if (facts.sent_garbage) {
    return {RankStatus::kFailed, "wrote into the result channel"};
  }
  const auto expected = needs.expected_ends.find(rank);
  const bool is_to_end = expected != needs.expected_ends.end();
  Finding end = is_to_end ? find_expected(expected->second, facts) : find_end(facts);
  if (end.status != RankStatus::kPassed) return end;
  if (!facts.leaked.empty()) {
    return {RankStatus::kFailed,
            fmt::format("leaked processes: {}", fmt::join(facts.leaked, ", "))};
  }
  if (is_to_end) return {};
  if (facts.skip_reason) return {RankStatus::kSkipped, ""};
  if (facts.assertions == 0) {
    return {RankStatus::kFailed, "made no assertion: a test that asserts nothing cannot fail"};
  }
  return {};
}

std::string words_of(RankStatus status) {
  switch (status) {
    case RankStatus::kCrashed:
      return "crashed: ";
    case RankStatus::kFailed:
      return "failed: ";
    default:
      return "";
  }
}

RankResult result_of(int rank, RankFacts& facts, const Finding& finding) {
  RankResult result{.rank = rank,
                    .status = finding.status,
                    .assertions = facts.assertions,
                    .failures = std::move(facts.failures),
                    .failures_lost = facts.failures_lost,
                    .skip_reason = facts.skip_reason.value_or(""),
                    .end = "",
                    .stands_at = std::move(facts.stands_at),
                    .told = std::move(facts.told),
                    .output = std::move(facts.output),
                    .output_lost = facts.output_lost,
                    .began = facts.began_at,
                    .ended = facts.ended_at,
                    .collectives = {},
                    .times = {},
                    .leaked = std::move(facts.leaked)};
  if (facts.collectives) {
    result.collectives = std::move(facts.collectives->counted);
    result.times = std::move(facts.collectives->times);
  }
  if (finding.status == RankStatus::kPassed || finding.status == RankStatus::kSkipped)
    return result;
  if (result.failures.empty()) result.failures.push_back({.message = finding.text});
  if (facts.was_ended) {
    result.end = facts.end ? "killed by distrun" : "could not be killed by distrun";
  } else if (facts.was_late && facts.end) {
    result.end = "too late: " + describe(*facts.end);
  } else if (facts.end && *facts.end != ProcessEnd(ExitedWith{0}) &&
             *facts.end != ProcessEnd(ExitedWith{1})) {
    result.end = describe(*facts.end);
  }
  return result;
}

std::vector<int> sorted(std::vector<int> ranks) {
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

// What lets ranks run different collectives.
const char* declaration_for(const TestInfo& test) {
  const bool is_python = test.file.ends_with(".py");
  return is_python ? "set distrun_collectives_may_differ = True" : "declare collectives_may_differ";
}

std::optional<Divergence> divergence_of_ranks(const std::vector<RankFacts>& facts) {
  std::vector<const CollectiveRecord*> records;
  records.reserve(facts.size());
  for (const RankFacts& one : facts) {
    records.push_back(one.collectives ? &*one.collectives : nullptr);
  }
  return divergence_of(records);
}

}  // namespace

RankOutcome outcome_of(const TestNeeds& needs, int rank, const RankFacts& facts) {
  switch (find(needs, rank, facts).status) {
    case RankStatus::kPassed:
      return RankOutcome::kPassed;
    case RankStatus::kSkipped:
      return RankOutcome::kSkipped;
    default:
      return RankOutcome::kFailed;
  }
}

AttemptResult judge(const TestInfo& test, std::vector<RankFacts> facts, bool interrupted,
                    const std::string& where) {
  const TestNeeds& needs = test.needs;
  AttemptResult result;
  std::vector<Finding> findings;
  std::vector<int> skipped, not_skipped, failed;
  for (int rank = 0; rank < static_cast<int>(facts.size()); ++rank) {
    const auto& its = facts[static_cast<std::size_t>(rank)];
    findings.push_back(find(needs, rank, its));
    if (interrupted && findings.back().status == RankStatus::kTimedOut) {
      findings.back().text = "was running when the run was interrupted";
    }
    const RankStatus status = findings.back().status;
    if (status == RankStatus::kSkipped) {
      skipped.push_back(rank);
    } else {
      not_skipped.push_back(rank);
      if (status != RankStatus::kPassed) failed.push_back(rank);
    }
  }
  const auto at = [&](int rank) -> const Finding& {
    return findings[static_cast<std::size_t>(rank)];
  };
  const auto order = [&](int rank) {
    const RankFacts& its = facts[static_cast<std::size_t>(rank)];
    return std::pair(reports_lost_peer(its), its.order);
  };
  std::stable_sort(failed.begin(), failed.end(), [&](int a, int b) {
    if (at(a).is_consequence != at(b).is_consequence) return at(b).is_consequence;
    return !at(a).is_consequence && order(a) < order(b);
  });
  result.culprits = failed;

  std::optional<Divergence> divergence;
  if (needs.expected_ends.empty()) divergence = divergence_of_ranks(facts);
  const bool is_allowed =
      divergence && needs.collectives_may_differ && divergence->kind != Divergence::Kind::kAwaited;
  const std::string allowed = is_allowed ? divergence->text : "";
  if (is_allowed) divergence.reset();
  // The ranks that the comparison names come first.
  const auto blame = [&](const std::vector<int>& ranks) {
    for (auto rank = ranks.rbegin(); rank != ranks.rend(); ++rank) {
      std::erase(result.culprits, *rank);
      result.culprits.insert(result.culprits.begin(), *rank);
    }
  };
  const bool somebody_failed = !failed.empty() && !at(failed.front()).is_consequence;
  const bool diverged = !somebody_failed && !skipped.empty() && !not_skipped.empty();
  if (interrupted) {
    result.status = TestStatus::kInterrupted;
    result.reason = "the run was interrupted before the test ended";
    if (divergence && divergence->kind != Divergence::Kind::kMissing) {
      result.reason += "; " + divergence->text;
    } else if (!where.empty()) {
      result.reason += "; " + where;
    }
  } else if (somebody_failed) {
    result.status = TestStatus::kFailed;
    const Finding& first = at(failed.front());
    result.reason = fmt::format("rank {} {}{}", failed.front(), words_of(first.status), first.text);
    // A rank that failed early lacks later collectives; a rank that passed would never run them.
    const bool is_telling =
        divergence &&
        (divergence->kind == Divergence::Kind::kDifferent ||
         std::all_of(divergence->ranks.begin(), divergence->ranks.end(),
                     [&](int rank) { return at(rank).status == RankStatus::kPassed; }));
    if (is_telling && facts[static_cast<std::size_t>(failed.front())].failed_by_assertion()) {
      result.reason += "; ranks disagree: " + divergence->text;
    } else if (is_telling) {
      result.reason = fmt::format("ranks disagree: {}; {}", divergence->text, result.reason);
      blame(divergence->ranks);
    }
  } else if (diverged) {
    result.status = TestStatus::kFailed;
    result.culprits.insert(result.culprits.begin(), skipped.begin(), skipped.end());
    result.reason = fmt::format("diverged: {} skipped, {} did not", list_of_ranks(skipped),
                                list_of_ranks(not_skipped));
  } else if (!failed.empty()) {
    result.status = TestStatus::kFailed;
    const std::string who = list_of_ranks(sorted(failed));
    result.reason = fmt::format("timed out: {} hung", who);
    if (divergence) {
      result.reason += ": " + divergence->text;
      blame(divergence->ranks);
    } else if (where.starts_with(who + " in ")) {
      result.reason += where.substr(who.size());
    } else if (where.starts_with(who + " stopped")) {
      result.reason = "timed out: " + where;
    } else if (!where.empty()) {
      result.reason += ": " + where;
    }
  } else if (!skipped.empty()) {
    result.status = TestStatus::kSkipped;
    result.reason = facts.front().skip_reason.value_or("");
  } else if (divergence) {
    result.status = TestStatus::kFailed;
    result.reason = fmt::format("ranks disagree: {}; {} if this is intended", divergence->text,
                                declaration_for(test));
    result.culprits = divergence->ranks;
  } else if (is_allowed) {
    result.reason = "ranks disagree, which collectives_may_differ allows: " + allowed;
  }
  for (std::size_t i = 0; i < facts.size(); ++i) {
    result.ranks.push_back(result_of(static_cast<int>(i), facts[i], findings[i]));
  }
  return result;
}

}  // namespace distrun

#include "testsuites/harness/report/attempt_account.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/text/rank_list.h"
#include "common/text/text_cut.h"
#include "testsuites/harness/report/merged_output.h"
#include "testsuites/harness/run/python_crash.h"

namespace distrun {

namespace {

// Escapes control characters except tabs and line ends; "\r\n" becomes "\n".
std::string shown(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto code = static_cast<unsigned char>(text[i]);
    if (code == '\r' && i + 1 < text.size() && text[i + 1] == '\n') continue;
    if ((code < 0x20 && code != '\n' && code != '\t') || code == 0x7F) {
      result += fmt::format("\\x{:02x}", code);
    } else {
      result += text[i];
    }
  }
  return result;
}

constexpr std::size_t kLineBytesShown = 500;

// For the console: cuts long lines.
std::string with_short_lines(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    const std::string_view kept = cut_to_bytes(line, kLineBytesShown);
    const std::string note = fmt::format("…[{} bytes left out]", line.size() - kept.size());
    const bool is_long = line.size() > kept.size() + note.size();
    result.append(is_long ? kept : line).append(is_long ? note : "");
    if (end < text.size()) result += '\n';
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return result;
}

std::string headline_of(const RankResult& rank) {
  switch (rank.status) {
    case RankStatus::kPassed:
      return "passed";
    case RankStatus::kFailed:
      return rank.assertions == 0 && rank.failures.empty() ? "failed: made no assertion" : "failed";
    case RankStatus::kSkipped:
      return rank.skip_reason.empty() ? "skipped" : "skipped: " + rank.skip_reason;
    case RankStatus::kCrashed:
      return "crashed";
    case RankStatus::kTimedOut:
      return "did not end";
    case RankStatus::kExited:
      return "exited during its test";
  }
  return "";
}

// The first line follows the place; others are indented below it.
std::string lines_of(const AssertionFailure& failure) {
  const std::string place =
      failure.file.empty() ? "" : fmt::format("{}:{}: ", failure.file, failure.line);
  const std::size_t end = std::min(failure.message.find('\n'), failure.message.size());
  return fmt::format("  {}{}\n", place, failure.message.substr(0, end)) +
         with_prefix(
             "      ",
             std::string_view(failure.message).substr(std::min(end + 1, failure.message.size())));
}

constexpr std::size_t kFailuresShown = 10, kFirstLinesShown = 20, kLastLinesShown = 80;

// "12 lines left out; --json FILE writes 3 of them"
std::string left_out(const char* what, std::size_t kept, std::size_t lost) {
  const std::string how_many = lost == 0 ? "" : fmt::format("{} of ", kept);
  return fmt::format("{} {}; --json FILE writes {}them", kept + lost, what, how_many);
}

bool is_said(const RankResult& rank, const std::string& text) {
  return !rank.failures.empty() && rank.failures.front().message.starts_with(text);
}

// Everything but the rank's number.
std::string body_of(const AttemptResult& attempt, const RankResult& rank, WithOutput with_output) {
  std::string text = headline_of(rank) + '\n';
  const bool is_short = with_output == WithOutput::kYes;
  // The last one may only count those that are lost.
  const std::size_t kept = rank.failures.size() - (rank.failures_lost > 0 ? 1 : 0);
  const std::size_t shown_failures =
      is_short ? std::min(kFailuresShown, kept) : rank.failures.size();
  for (std::size_t i = 0; i < shown_failures; ++i) text += lines_of(rank.failures[i]);
  if (shown_failures < kept) {
    text += fmt::format("  {}\n", left_out("more failures", kept - shown_failures,
                                           static_cast<std::size_t>(rank.failures_lost)));
  }
  if (!rank.end.empty() && !is_said(rank, rank.end)) text += fmt::format("  ended: {}\n", rank.end);
  if (!attempt.where.stacks.empty()) {
    text += with_prefix("  ", rank.told);
  } else if (!rank.stands_at.empty()) {
    text += "  stood at:\n" + with_prefix("    ", rank.stands_at);
  }
  const auto leaked = fmt::format("leaked processes: {}", fmt::join(rank.leaked, ", "));
  if (!rank.leaked.empty() && !is_said(rank, leaked)) text += "  " + leaked + '\n';
  return shown(is_short ? with_short_lines(text) : text);
}

// The index after the first `lines` lines.
std::size_t behind_lines(std::string_view text, std::size_t lines) {
  std::size_t at = 0;
  for (; lines > 0 && at < text.size(); --lines)
    at = std::min(text.find('\n', at), text.size() - 1) + 1;
  return at;
}

// Keeps the first and the last lines. The text may have a gap already.
std::string shortened(const std::string& text, const LostText& lost) {
  const auto ends = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
  const std::size_t lines = ends + (text.empty() || text.ends_with('\n') ? 0 : 1);
  if (lines <= kFirstLinesShown + kLastLinesShown) return text;
  const std::size_t cut = lines - kFirstLinesShown - kLastLinesShown;
  const std::size_t first = behind_lines(text, kFirstLinesShown);
  const std::size_t last = behind_lines(text, kFirstLinesShown + cut);
  const bool has_gap =
      lost.lines > 0 &&
      std::string_view(text).substr(first, last - first).find(gap_line(lost)) != text.npos;
  return fmt::format("{}… {}\n{}", text.substr(0, first),
                     left_out("lines left out", cut - (has_gap ? 1 : 0), has_gap ? lost.lines : 0),
                     text.substr(last));
}

struct Account {
  std::vector<int> ranks;  // In ascending order.
  std::string body;
};

// Culprits first.
std::vector<const RankResult*> in_order(const AttemptResult& attempt) {
  const auto place = [&](const RankResult* rank) {
    return std::find(attempt.culprits.begin(), attempt.culprits.end(), rank->rank);
  };
  std::vector<const RankResult*> ranks;
  for (const RankResult& rank : attempt.ranks) ranks.push_back(&rank);
  std::stable_sort(ranks.begin(), ranks.end(),
                   [&](const auto* a, const auto* b) { return place(a) < place(b); });
  return ranks;
}

std::vector<Account> accounts_of(const AttemptResult& attempt, WithOutput with_output) {
  std::vector<Account> accounts;
  for (const RankResult* rank : in_order(attempt)) {
    const std::string body = body_of(attempt, *rank, with_output);
    auto same = std::find_if(accounts.begin(), accounts.end(),
                             [&](const Account& other) { return other.body == body; });
    if (same == accounts.end()) same = accounts.insert(same, {{}, body});
    same->ranks.push_back(rank->rank);
  }
  for (Account& account : accounts) std::sort(account.ranks.begin(), account.ranks.end());
  return accounts;
}

// "ran on node 0 (gpu-0): ranks 0, 1\n"; empty with one node.
std::string nodes_of(const AttemptResult& attempt) {
  std::map<int, std::vector<int>> ranks;
  std::map<int, std::string> hosts;
  for (const RankResult& rank : attempt.ranks) {
    if (rank.host.empty()) return "";
    ranks[rank.node].push_back(rank.rank);
    hosts[rank.node] = rank.host;
  }
  std::string text;
  for (const auto& [node, its] : ranks) {
    text += fmt::format("ran on node {} ({}): {}\n", node, hosts[node], list_of_ranks(its));
  }
  return text;
}

// The stacks of all ranks in one tree, under a line that the reason may contain.
std::string places_of(const AttemptResult& attempt, WithOutput with_output) {
  const auto& [line, stacks] = attempt.where;
  if (stacks.empty()) return "";
  const std::string_view does =
      std::string_view(line).substr(std::min(line.find(" in "), line.size()));
  const bool is_told = line.empty() || attempt.reason.find(does.empty() ? line : does) != line.npos;
  const std::string text =
      fmt::format("where the ranks were:{}{}\n{}", is_told ? "" : " ", is_told ? "" : line, stacks);
  return shown(with_output == WithOutput::kYes ? with_short_lines(text) : text);
}

}  // namespace

std::string with_prefix(std::string_view prefix, std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    result.append(prefix).append(text.substr(0, end)).append(1, '\n');
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return result;
}

std::string account_of(const AttemptResult& attempt, WithOutput with_output) {
  std::string text;
  for (const Account& account : accounts_of(attempt, with_output)) {
    text += fmt::format("{}: {}", list_of_ranks(account.ranks), account.body);
  }
  text += nodes_of(attempt);
  text += places_of(attempt, with_output);
  if (with_output == WithOutput::kNo) return text;
  const std::string output = merged_output_of(attempt);
  return output.empty() ? text : text + "output:\n" + with_prefix("  ", output);
}

std::string merged_output_of(const AttemptResult& attempt) {
  std::vector<std::pair<int, std::string>> outputs;
  for (const RankResult* rank : in_order(attempt)) {
    const std::string output = with_short_python_crashes(rank->output);
    outputs.emplace_back(rank->rank, shortened(shown(with_short_lines(output)), rank->output_lost));
  }
  return merged_output(outputs);
}

std::string output_of(const AttemptResult& attempt) {
  std::string text;
  for (const RankResult& rank : attempt.ranks) {
    text += with_prefix(fmt::format("[rank {}] ", rank.rank), shown(rank.output));
  }
  return text;
}

}  // namespace distrun

#include "testsuites/harness/run/rank_place.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "common/text/rank_list.h"

namespace distrun {

namespace {

bool is_test(const Frame& frame) { return frame.function.ends_with("::TestBody"); }

// Without the test's frame (in SetUp(), or after a tail call), only this frame identifies the test.
// In Python, it is of the test host (python/distrun_rank.py).
bool calls_tests(const Frame& frame) {
  return frame.function.starts_with("testing::internal::HandleExceptionsInMethodIfSupported") ||
         frame.function.ends_with("distrun_runs_test");
}

// Threads that wait for questions of distrun, or of PyTorch's parent process.
bool is_of_the_harness(const ThreadStack& thread) {
  return std::any_of(thread.frames.begin(), thread.frames.end(), [](const Frame& frame) {
    return frame.function.ends_with("distrun_answers") ||
           frame.function == "MultiProcessTestCase._event_listener";
  });
}

// These lead to the function of a thread.
bool starts_threads(const Frame& frame) {
  constexpr std::array<std::string_view, 6> kStarts{
      "execute_native_thread_routine", "start_thread", "clone", "clone3", "__clone", "__clone3"};
  return std::find(kStarts.begin(), kStarts.end(), frame.function) != kStarts.end();
}

void cut_to_the_test(std::vector<Frame>& frames) {
  const auto test = std::find_if(frames.rbegin(), frames.rend(), is_test);
  const auto caller = std::find_if(frames.rbegin(), frames.rend(), calls_tests);
  if (test != frames.rend()) {
    frames.erase(frames.begin(), test.base() - 1);
  } else if (caller != frames.rend() && caller != frames.rbegin()) {
    frames.erase(frames.begin(), caller.base());
  }
}

ProcessStacks from_the_test_on(ProcessStacks rank) {
  std::erase_if(rank.threads, is_of_the_harness);
  for (ThreadStack& thread : rank.threads) cut_to_the_test(thread.frames);
  return rank;
}

std::string without_indent(std::string_view text) {
  constexpr std::size_t kIndent = 2;
  std::string result;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    result.append(text.substr(std::min(kIndent, end), end - std::min(kIndent, end)))
        .append(1, '\n');
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return result;
}

}  // namespace

std::string place_of(int rank, std::vector<ProcessStacks> processes) {
  if (processes.front().threads.empty()) return "";
  const std::string held = processes.front().state == 'T' ? kStopped : "";
  for (ProcessStacks& process : processes) process = from_the_test_on(std::move(process));
  const auto where = where_ranks_are({{rank, std::move(processes)}});
  return held + without_indent(where.stacks);
}

Whereabouts places_of(const std::vector<RankStacks>& ranks) {
  std::vector<RankStacks> shown = ranks;
  for (RankStacks& rank : shown) {
    for (ProcessStacks& process : rank.processes) process = from_the_test_on(std::move(process));
  }
  return where_ranks_are(shown);
}

std::string collectives_text(const std::map<int, std::string>& told) {
  std::vector<std::pair<std::string_view, std::vector<int>>> groups;
  for (const auto& [rank, text] : told) {
    const std::string_view whole = text;
    auto same = std::find_if(groups.begin(), groups.end(),
                             [&](const auto& group) { return group.first == whole; });
    if (same == groups.end()) same = groups.insert(same, {whole, {}});
    same->second.push_back(rank);
  }
  std::string text = groups.empty() ? "" : "  collectives\n";
  for (auto [lines, ranks] : groups) {
    text += fmt::format("    {}: ", list_of_ranks(ranks));
    for (std::size_t end = 0; (end = lines.find('\n')) < lines.size() - 1;) {
      text.append(lines.substr(0, end + 1)).append(6, ' ');
      lines.remove_prefix(end + 1);
    }
    text.append(lines.substr(0, lines.find('\n'))).append(1, '\n');
  }
  return text;
}

std::string with_named_backtraces(std::string_view output, const NameFrame& name) {
  return named_backtrace(output, name, [](const Frame& frame) {
    if (is_test(frame)) return CutFrames::kAfterThis;
    return calls_tests(frame) || starts_threads(frame) ? CutFrames::kFromHere : CutFrames::kNo;
  });
}

std::string with_named_backtraces(std::string_view output, SymbolNames& names) {
  std::string named =
      with_named_backtraces(output, [&names](const std::string& file, std::uint64_t address) {
        return names.frame_at(file, address);
      });
  names.close_files();
  return named;
}

}  // namespace distrun

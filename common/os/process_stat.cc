#include "common/os/process_stat.h"

#include <algorithm>

#include <unistd.h>

#include "common/os/proc.h"
#include "common/text/parse_number.h"

namespace distrun {

namespace {

// Field numbers of proc(5); 1 and 2 are pid and name.
constexpr std::size_t kState = 3, kParent = 4, kGroup = 5, kSession = 6, kUserTime = 14,
                      kSystemTime = 15;

std::string_view next_word(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \n"), text.size()));
  const std::string_view word = text.substr(0, text.find_first_of(" \n"));
  text.remove_prefix(word.size());
  return word;
}

template <class Number>
bool read_number(std::string_view word, Number& into) {
  const auto number = parse_number<Number>(word);
  if (number) into = *number;
  return number.has_value();
}

std::unordered_map<pid_t, std::vector<pid_t>> processes_by(pid_t ProcessStat::*leader) {
  std::unordered_map<pid_t, std::vector<pid_t>> found;
  for (const pid_t pid : all_processes()) {
    if (const auto stat = parse_process_stat(proc_file(pid, "stat"), "", {}))
      found[(*stat).*leader].push_back(pid);
  }
  return found;
}

}  // namespace

std::optional<ProcessStat> parse_process_stat(std::string_view stat, std::string_view statm,
                                              const ProcUnits& units) {
  // "PID (NAME) STATE …": a process chooses its NAME, which may contain ") R 1 1".
  const std::size_t name_end = stat.rfind(')');
  if (name_end == std::string_view::npos) return std::nullopt;
  stat.remove_prefix(name_end + 1);
  ProcessStat found;
  std::int64_t user = 0, system = 0;
  std::uint64_t pages = 0;
  for (std::size_t field = kState; field <= kSystemTime; ++field) {
    const std::string_view word = next_word(stat);
    bool understood = true;
    if (field == kState) found.state = word.empty() ? '?' : word.front();
    if (field == kParent) understood = read_number(word, found.parent);
    if (field == kGroup) understood = read_number(word, found.group);
    if (field == kSession) understood = read_number(word, found.session);
    if (field == kUserTime) understood = read_number(word, user);
    if (field == kSystemTime) understood = read_number(word, system);
    if (!understood) return std::nullopt;
  }
  next_word(statm);  // The total size; the resident size follows.
  if (!statm.empty() && !read_number(next_word(statm), pages)) return std::nullopt;
  found.cpu_time = std::chrono::milliseconds((user + system) * 1000 / units.ticks_per_second);
  found.resident_bytes = pages * units.page_bytes;
  return found;
}

std::optional<ProcessStat> read_process_stat(pid_t pid) {
  const ProcUnits units{::sysconf(_SC_CLK_TCK), static_cast<std::uint64_t>(::getpagesize())};
  return parse_process_stat(proc_file(pid, "stat"), proc_file(pid, "statm"), units);
}

std::unordered_map<pid_t, std::vector<pid_t>> processes_by_session() {
  return processes_by(&ProcessStat::session);
}

std::unordered_map<pid_t, std::vector<pid_t>> processes_by_group() {
  return processes_by(&ProcessStat::group);
}

}  // namespace distrun

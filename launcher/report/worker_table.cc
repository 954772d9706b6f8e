#include "launcher/report/worker_table.h"

#include <algorithm>

#include <fmt/format.h>

namespace distrun {

namespace {

std::string state_of(const ProcessStat& stat) {
  switch (stat.state) {
    case 'R':
      return "running";
    case 'S':
    case 'I':
      return "sleeping";
    case 'D':
      return "WAITS IN THE KERNEL (D)";
    case 'T':
      return "STOPPED";
    case 't':
      return "STOPPED by a debugger";
    case 'Z':
    case 'X':
      return "ending";
    default:
      return fmt::format("state {}", stat.state);
  }
}

std::string text_of(std::chrono::milliseconds time) {
  return fmt::format("{:.1f} s", std::chrono::duration<double>(time).count());
}

std::string text_of(std::uint64_t bytes) {
  return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20));
}

using Line = std::vector<std::string>;

Line line_of(const WorkerRow& row) {
  const bool started = row.pid >= 0, runs = started && !row.end && row.stat;
  return {fmt::to_string(row.rank.value()),
          started ? fmt::to_string(row.pid) : "-",
          started ? text_of(row.run_time) : "-",
          runs ? text_of(row.stat->cpu_time) : "-",
          runs ? text_of(row.stat->resident_bytes) : "-",
          started && row.processes > 0 ? fmt::to_string(row.processes) : "-",
          state_text(row)};
}

}  // namespace

std::string state_text(const WorkerRow& row) {
  if (row.pid < 0) return "not started yet";
  if (row.end) return describe(*row.end) + (row.output_open ? "; ITS OUTPUT IS STILL OPEN" : "");
  if (!row.stat) return "ending";
  return state_of(*row.stat) + (row.is_straggler ? "; DELAYS THE OTHERS" : "");
}

std::string aligned_columns(const std::vector<std::vector<std::string>>& lines) {
  std::vector<std::size_t> widths(lines.front().size());
  for (const Line& line : lines) {
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  }
  std::string text;
  for (const Line& line : lines) {
    for (std::size_t i = 0; i + 1 < line.size(); ++i) {
      text += fmt::format("{:>{}}  ", line[i], widths[i]);
    }
    text += line.back() + '\n';
  }
  return text;
}

std::string worker_table(const std::vector<WorkerRow>& rows) {
  std::vector<Line> lines = {{"rank", "pid", "time", "CPU", "memory", "processes", "state"}};
  for (const WorkerRow& row : rows) lines.push_back(line_of(row));
  return aligned_columns(lines);
}

}  // namespace distrun

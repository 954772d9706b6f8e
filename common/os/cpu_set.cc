#include "common/os/cpu_set.h"

#include <algorithm>

#include "common/text/parse_number.h"

namespace distrun {

Result<CpuSet> parse_cpu_list(std::string_view text) {
  while (text.ends_with('\n')) text.remove_suffix(1);
  CpuSet cpus;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view range = text.substr(begin, end - begin);
    begin = end + 1;
    const std::size_t dash = std::min(range.find('-'), range.size());
    const auto first = parse_number<int>(range.substr(0, dash), 0, kCpusMax - 1);
    if (!first) return first.error();
    auto last = first;
    if (dash < range.size()) last = parse_number<int>(range.substr(dash + 1), *first, kCpusMax - 1);
    if (!last) return last.error();
    for (int cpu = *first; cpu <= *last; ++cpu) cpus.insert(cpu);
  }
  return cpus;
}

std::string cpu_list(const CpuSet& cpus) {
  std::string text;
  for (auto cpu = cpus.begin(); cpu != cpus.end();) {
    const int first = *cpu;
    int last = first;
    while (++cpu != cpus.end() && *cpu == last + 1) last = *cpu;
    if (!text.empty()) text += ',';
    text += std::to_string(first);
    if (last > first) text += '-' + std::to_string(last);
  }
  return text;
}

CpuSet usable_cpus() {
  std::array<cpu_set_t, kCpusMax / CPU_SETSIZE> bits{};
  CpuSet cpus;
  if (::sched_getaffinity(0, sizeof(bits), bits.data()) != 0) return cpus;
  for (int cpu = 0; cpu < kCpusMax; ++cpu) {
    if (CPU_ISSET_S(cpu, sizeof(bits), bits.data())) cpus.insert(cpu);
  }
  return cpus;
}

CpuMask::CpuMask(const CpuSet& cpus) {
  for (const int cpu : cpus) CPU_SET_S(cpu, sizeof(bits_), bits_.data());
}

bool CpuMask::bind_this_thread() const {
  return ::sched_setaffinity(0, sizeof(bits_), bits_.data()) == 0;
}

}  // namespace distrun

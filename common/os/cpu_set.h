// A set of CPUs, the kernel's text of it, and the CPUs that a thread may use.
//
//     auto cpus = parse_cpu_list("0-2,8\n");       // {0, 1, 2, 8}
//     const std::string text = cpu_list(*cpus);    // "0-2,8"
//     const CpuMask mask(*cpus);
//     if (!mask.bind_this_thread()) return Error::from_errno("bind to CPUs " + text);
#pragma once

#include <array>
#include <set>
#include <string>
#include <string_view>

#include <sched.h>

#include "distrun/result.h"

namespace distrun {

using CpuSet = std::set<int>;

// Linux supports at most so many.
inline constexpr int kCpusMax = 8192;

// The form of files such as /sys/devices/system/node/node0/cpulist; an empty text is an empty set.
// Fails with kInvalidArgument. Pure.
Result<CpuSet> parse_cpu_list(std::string_view text);
std::string cpu_list(const CpuSet& cpus);

// Those that this thread may use. Empty if the kernel does not say.
CpuSet usable_cpus();

// The form that system calls take.
class CpuMask {
 public:
  // Requires numbers from 0 to kCpusMax - 1.
  explicit CpuMask(const CpuSet& cpus);

  // This thread, and the processes and threads that it starts later, run only on these CPUs. May be
  // called between vfork() and exec(). Fails, with errno, if this thread may use none of them.
  bool bind_this_thread() const;

 private:
  std::array<cpu_set_t, kCpusMax / CPU_SETSIZE> bits_{};
};

}  // namespace distrun

#include "launcher/preflight/read_node_facts.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>

#include <fcntl.h>
#include <sys/statvfs.h>

#include "common/os/cgroup.h"
#include "common/os/cpu_set.h"
#include "common/text/begins_with_any.h"
#include "common/text/parse_number.h"
#include "launcher/plan/worker_count.h"

namespace distrun {

namespace {

constexpr auto kComparedBeginnings = std::to_array<std::string_view>({"GLOO_", "NCCL_", "TORCH_"});
constexpr const char* kThreads = "OMP_NUM_THREADS";
// distrun sets these, or their values name what each node calls differently.
constexpr auto kValuesOfOneNode = std::to_array<std::string_view>(
    {"GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "TORCH_NCCL_DEBUG_INFO_PIPE_FILE",
     "TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"});

std::string first_word_of(const std::string& path) {
  std::string word;
  std::ifstream(path) >> word;
  return word;
}

// nullopt for "max" too.
std::optional<std::uint64_t> number_in(const std::string& path) {
  const auto number = parse_number<std::uint64_t>(first_word_of(path));
  return number ? std::optional(*number) : std::nullopt;
}

// A soft limit of /proc/self/limits; nullopt: none.
std::optional<std::uint64_t> soft_limit(const std::string& root, const std::string& name) {
  std::ifstream file(root + "/proc/self/limits");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(name)) continue;
    std::string value;
    std::istringstream(line.substr(name.size())) >> value;
    const auto number = parse_number<std::uint64_t>(value);
    if (number) return *number;
  }
  return std::nullopt;
}

// Processes and threads of a user, as RLIMIT_NPROC counts them.
std::uint64_t threads_of(uid_t user, const std::string& root) {
  std::uint64_t threads = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(root + "/proc", error)) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const std::string status = entry.path().string() + "/status";
    if (named_number(status, "Uid:") == user)
      threads += named_number(status, "Threads:").value_or(0);
  }
  return threads;
}

struct CgroupLevel {
  int version;
  std::string folder;
};

// A limit may be on any level above this process. In a container, upper levels may be missing.
std::vector<CgroupLevel> levels_of(const std::string& controller, const std::string& root) {
  std::vector<CgroupLevel> levels;
  for (const Cgroup& group : cgroups(controller, root)) {
    std::string path = group.path;
    while (path.size() > 1 && path.starts_with('/')) {
      levels.push_back({group.version, group.mount + path});
      path.resize(path.rfind('/'));
    }
    levels.push_back({group.version, group.mount});
  }
  return levels;
}

void keep_least(std::optional<Left>& least, std::uint64_t limit, std::uint64_t used,
                Left::Limit what) {
  const std::uint64_t amount = limit > used ? limit - used : 0;
  if (!least || amount < least->amount) least = Left{amount, what};
}

std::optional<Left> processes_left(const std::string& root, uid_t user) {
  std::optional<Left> least;
  for (const CgroupLevel& level : levels_of("pids", root)) {
    const auto limit = number_in(level.folder + "/pids.max");
    const auto used = number_in(level.folder + "/pids.current");
    if (limit && used) keep_least(least, *limit, *used, Left::Limit::kCgroup);
  }
  // The limit does not apply to root.
  const auto limit = user == 0 ? std::nullopt : soft_limit(root, "Max processes");
  if (limit) keep_least(least, *limit, threads_of(user, root), Left::Limit::kUser);
  return least;
}

std::optional<Left> memory_left(const std::string& root) {
  std::optional<Left> least;
  for (const auto& [version, folder] : levels_of("memory", root)) {
    const bool is_new = version == 2;
    const auto limit = number_in(folder + (is_new ? "/memory.max" : "/memory.limit_in_bytes"));
    const auto used = number_in(folder + (is_new ? "/memory.current" : "/memory.usage_in_bytes"));
    if (!limit || !used) continue;
    // The kernel drops cached pages of files when a process needs memory.
    std::uint64_t cached = 0;
    for (const char* kind : {"inactive_file", "active_file"}) {
      const std::string name = std::string(is_new ? "" : "total_") + kind;
      cached += named_number(folder + "/memory.stat", name).value_or(0);
    }
    keep_least(least, *limit, *used - std::min(*used, cached), Left::Limit::kCgroup);
  }
  const auto kilobytes = named_number(root + "/proc/meminfo", "MemAvailable:");
  if (kilobytes) keep_least(least, *kilobytes * 1024, 0, Left::Limit::kMachine);
  return least;
}

std::optional<double> cgroup_cpus(const std::string& root) {
  std::optional<double> least;
  for (const auto& [version, folder] : levels_of("cpu", root)) {
    std::string quota, period;
    if (version == 2) {
      std::ifstream(folder + "/cpu.max") >> quota >> period;
    } else {
      quota = first_word_of(folder + "/cpu.cfs_quota_us");
      period = first_word_of(folder + "/cpu.cfs_period_us");
    }
    const auto allowed = parse_number<std::uint64_t>(quota);  // Neither "max" nor -1.
    const auto length = parse_number<std::uint64_t>(period, 1);
    if (!allowed || !length) continue;
    const double cpus = static_cast<double>(*allowed) / static_cast<double>(*length);
    least = std::min(least.value_or(cpus), cpus);
  }
  return least;
}

int visible_cpus(const std::string& root) {
  std::ifstream file(root + "/proc/self/status");
  constexpr std::string_view kName = "Cpus_allowed_list:";
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(kName)) continue;
    const std::size_t list = std::min(line.find_first_of("0123456789", kName.size()), line.size());
    const auto cpus = parse_cpu_list(line.substr(list));
    return cpus ? static_cast<int>(cpus->size()) : 0;
  }
  return 0;
}

FolderFacts folder_facts(const std::string& path, const std::string& root) {
  FolderFacts facts{.path = path};
  const std::string real = root + path;
  std::error_code error;
  facts.exists = std::filesystem::is_directory(real, error);
  facts.writable = ::faccessat(AT_FDCWD, real.c_str(), W_OK | X_OK, AT_EACCESS) == 0;
  struct statvfs system {};
  if (::statvfs(real.c_str(), &system) == 0) {
    facts.bytes = system.f_blocks * system.f_frsize;
    facts.free_bytes = system.f_bavail * system.f_frsize;
  }
  return facts;
}

}  // namespace

bool is_compared(const std::string& variable) {
  if (std::count(kValuesOfOneNode.begin(), kValuesOfOneNode.end(), variable) > 0) return false;
  return variable == kThreads || begins_with_any(variable, kComparedBeginnings);
}

NodeFacts read_node_facts(const Environment& environment, const std::string& root, uid_t user) {
  NodeFacts facts;
  facts.open_files = soft_limit(root, "Max open files");
  facts.processes = processes_left(root, user);
  facts.memory = memory_left(root);
  facts.cgroup_cpus = cgroup_cpus(root);
  facts.visible_cpus = visible_cpus(root);
  facts.shared_memory = folder_facts("/dev/shm", root);
  const std::string temporary = environment.get("TMPDIR").value_or("");
  facts.has_tmpdir = !temporary.empty();
  facts.temporary = folder_facts(facts.has_tmpdir ? temporary : "/tmp", root);
  facts.gpus = gpu_files(root);
  for (const auto& [name, value] : environment.variables()) {
    if (name == kThreads && value.empty()) continue;
    const bool names_interface = name == "GLOO_SOCKET_IFNAME" || name == "NCCL_SOCKET_IFNAME";
    if (names_interface || is_compared(name)) facts.variables[name] = value;
  }
  return facts;
}

}  // namespace distrun

#include "launcher/preflight/node_findings.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/text/parse_number.h"
#include "common/text/split.h"

namespace distrun {

namespace {

using Findings = std::vector<std::string>;

const std::string* variable_of_node(const NodeFacts& facts, const std::string& name) {
  const auto found = facts.variables.find(name);
  return found == facts.variables.end() || found->second.empty() ? nullptr : &found->second;
}

void find_limits(const NodeFacts& facts, Findings& findings) {
  if (facts.open_files && *facts.open_files < kOpenFilesMin) {
    findings.push_back(
        fmt::format("a process can open only {} files: raise the limit (ulimit -n {})",
                    *facts.open_files, 16 * kOpenFilesMin));
  }
  if (facts.processes && facts.processes->amount < kProcessesMin) {
    findings.push_back(
        fmt::format("only {} more processes and threads can start: {}", facts.processes->amount,
                    facts.processes->limit == Left::Limit::kCgroup
                        ? "raise pids.max of the cgroup (docker run --pids-limit=-1)"
                        : "end other processes of this user, or raise the limit (ulimit -u)"));
  }
  if (facts.memory && facts.memory->amount < kMemoryMin) {
    const bool is_of_cgroup = facts.memory->limit == Left::Limit::kCgroup;
    findings.push_back(fmt::format(
        "only {} of memory are free{}: {}", size_text(facts.memory->amount),
        is_of_cgroup ? " under the limit of the cgroup" : "",
        is_of_cgroup ? "give the job or the container more memory" : "end other programs"));
  }
}

void find_cpus(const NodeFacts& facts, Findings& findings) {
  if (!facts.cgroup_cpus || *facts.cgroup_cpus >= facts.visible_cpus) return;
  const int usable = std::max(static_cast<int>(*facts.cgroup_cpus), 1);
  const std::string* threads = variable_of_node(facts, "OMP_NUM_THREADS");
  if (threads != nullptr && parse_number<int>(*threads, 1, usable)) return;
  findings.push_back(fmt::format(
      "the cgroup allows {:.3g} CPUs, but programs see {} and may start as many threads: set "
      "OMP_NUM_THREADS={}, or give the job or the container more CPUs",
      *facts.cgroup_cpus, facts.visible_cpus, usable));
}

void find_shared_memory(const NodeFacts& facts, Findings& findings) {
  const FolderFacts& folder = facts.shared_memory;
  if (!folder.exists) {
    findings.emplace_back(
        "/dev/shm does not exist: data loaders of PyTorch and NCCL need it; mount a tmpfs there");
  } else if (!folder.writable) {
    findings.emplace_back(
        "/dev/shm is not writable: data loaders of PyTorch and NCCL write there (chmod 1777 "
        "/dev/shm)");
  } else if (folder.bytes < kSharedMemoryMin) {
    findings.push_back(fmt::format(
        "/dev/shm has {}: data loaders of PyTorch and NCCL need more (docker run --shm-size=1g)",
        size_text(folder.bytes)));
  } else if (folder.free_bytes < kSharedMemoryMin) {
    findings.push_back(
        fmt::format("/dev/shm has only {} free of {}: remove files that no program uses",
                    size_text(folder.free_bytes), size_text(folder.bytes)));
  }
}

void find_temporary(const NodeFacts& facts, Findings& findings) {
  const FolderFacts& folder = facts.temporary;
  const std::string name = fmt::format("the folder for temporary files, {}{},", folder.path,
                                       facts.has_tmpdir ? " (TMPDIR)" : "");
  if (!folder.exists) {
    findings.push_back(name + " does not exist: make it, or set TMPDIR to another folder");
  } else if (!folder.writable) {
    findings.push_back(name +
                       " is not writable: give this user access, or set TMPDIR to another folder");
  } else if (folder.free_bytes < kTemporaryMin) {
    findings.push_back(
        fmt::format("{} has only {} free: remove files, or set TMPDIR to another folder", name,
                    size_text(folder.free_bytes)));
  }
}

bool is_usable(const InterfaceFacts& interface) { return interface.is_up && interface.has_address; }

std::string choice_of(const std::vector<InterfaceFacts>& interfaces) {
  std::vector<std::string> usable;
  for (const InterfaceFacts& one : interfaces) {
    if (is_usable(one)) usable.push_back(one.name);
  }
  return usable.empty() ? "this node has no usable interface"
                        : fmt::format("choose from {}", fmt::join(usable, ", "));
}

// Gloo takes whole names, separated by commas, and needs all of them.
void find_interfaces_of_gloo(const NodeFacts& facts, Findings& findings) {
  const std::string* value = variable_of_node(facts, "GLOO_SOCKET_IFNAME");
  if (value == nullptr) return;
  for (const std::string& name : words_of(*value, ',')) {
    const auto found = std::find_if(facts.interfaces.begin(), facts.interfaces.end(),
                                    [&](const InterfaceFacts& one) { return one.name == name; });
    const bool exists = found != facts.interfaces.end();
    if (exists && is_usable(*found)) continue;
    const char* problem = !exists         ? "does not exist"
                          : !found->is_up ? "is down"
                                          : "has no IP address";
    findings.push_back(fmt::format("the interface {} of GLOO_SOCKET_IFNAME {}: {}", name, problem,
                                   choice_of(facts.interfaces)));
  }
}

// NCCL takes beginnings of names ("eth,ib"); "=" makes them whole names, and "^" excludes.
void find_interfaces_of_nccl(const NodeFacts& facts, Findings& findings) {
  const std::string* value = variable_of_node(facts, "NCCL_SOCKET_IFNAME");
  if (value == nullptr) return;
  std::string_view list = *value;
  const bool excludes = list.starts_with('^');
  if (excludes) list.remove_prefix(1);
  const bool is_exact = list.starts_with('=');
  if (is_exact) list.remove_prefix(1);
  const auto names = words_of(list, ',');
  const auto is_listed = [&](const InterfaceFacts& one) {
    return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
      return is_exact ? one.name == name : one.name.starts_with(name);
    });
  };
  const bool has_one = std::any_of(
      facts.interfaces.begin(), facts.interfaces.end(),
      [&](const InterfaceFacts& one) { return is_usable(one) && is_listed(one) != excludes; });
  if (has_one) return;
  findings.push_back(
      fmt::format("no interface that is up and has an IP address fits NCCL_SOCKET_IFNAME={}: {}",
                  *value, choice_of(facts.interfaces)));
}

void find_own_name(const NodeFacts& facts, Findings& findings) {
  if (facts.own_name_look == NodeFacts::Look::kFound) return;
  // With this variable, Gloo does not need the name.
  if (variable_of_node(facts, "GLOO_SOCKET_IFNAME") != nullptr) return;
  findings.push_back(fmt::format(
      "the name of this machine, {}, {}: Gloo looks it up; add it to /etc/hosts, or set "
      "GLOO_SOCKET_IFNAME",
      facts.own_name,
      facts.own_name_look == NodeFacts::Look::kSlow ? "takes more than 1 s to resolve"
                                                    : "does not resolve"));
}

}  // namespace

std::string size_text(std::uint64_t bytes) {
  const auto size = static_cast<double>(bytes);
  if (bytes >= kGiB) return fmt::format("{:.4g} GiB", std::floor(size / kGiB * 10) / 10);
  if (bytes >= kMiB) return fmt::format("{} MiB", bytes / kMiB);
  return fmt::format("{} KiB", bytes / kKiB);
}

std::vector<std::string> node_findings(const NodeFacts& facts) {
  Findings findings;
  find_limits(facts, findings);
  find_cpus(facts, findings);
  find_shared_memory(facts, findings);
  find_temporary(facts, findings);
  find_own_name(facts, findings);
  find_interfaces_of_gloo(facts, findings);
  find_interfaces_of_nccl(facts, findings);
  return findings;
}

}  // namespace distrun

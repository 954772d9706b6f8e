#include "testsuites/testing/leftovers.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <thread>

#include <arpa/inet.h>
#include <dirent.h>
#include <dlfcn.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/text/parse_number.h"
#include "testsuites/testing/stack_reporter.h"

namespace distrun {

namespace {

constexpr const char* kGloo = "gloo_";  // "gloo_tcp_loop"
constexpr std::chrono::microseconds kPauseMax = std::chrono::milliseconds(5);
constexpr const char* kSharedMemory = "/dev/shm/";
constexpr std::array kFolders = {kSharedMemory, "/tmp/", "/var/tmp/"};

// Not std::filesystem: every rank calls this twice, and its paths cost more than the system calls.
template <class Take>
void for_each_name(const char* folder, const Take& take) {
  DIR* entries = ::opendir(folder);
  if (entries == nullptr) return;
  while (const dirent* entry = ::readdir(entries)) {
    if (entry->d_name[0] != '.') take(static_cast<const char*>(entry->d_name));
  }
  ::closedir(entries);
}

std::string thread_name(pid_t thread) {
  std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/comm");
  std::string name;
  std::getline(file, name);
  return name;
}

// "232 0x5 0x7f0c 0x40 0xa 0x0 0x0 0x7f0d 0x7f0e": the number of the system call that the thread is
// in, its arguments, the stack pointer and the address of the next instruction; or "running".
std::string system_call_of(pid_t thread) {
  std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/syscall");
  std::string line;
  std::getline(file, line);
  return line;
}

// In LibTorch 2.11, the thread of a group has no name. It waits for 64 events at a time, and at
// most 10 ms (gloo/transport/tcp/loop.cc).
bool waits_as_gloo(pid_t thread) {
  std::istringstream call(system_call_of(thread));
  long number = -1;
  std::string descriptor, events, capacity, timeout;
  if (!(call >> number >> descriptor >> events >> capacity >> timeout)) return false;
  const bool waits = number == SYS_epoll_pwait
#ifdef SYS_epoll_wait
                     || number == SYS_epoll_wait
#endif
      ;
  return waits && capacity == "0x40" && timeout == "0xa";
}

bool is_of_group(pid_t thread) {
  return thread_name(thread).starts_with(kGloo) || waits_as_gloo(thread);
}

// OpenMP keeps its threads. They wait in the library's own code.
bool is_of_openmp(pid_t thread) {
  const std::string line = system_call_of(thread);
  const auto last = line.rfind("0x");
  const auto address = last == line.npos ? 0 : std::strtoull(line.c_str() + last, nullptr, 16);
  if (address == 0) return false;
  auto* const code = reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr)
  Dl_info info{};
  if (::dladdr(code, &info) == 0) return false;
  const std::string library = info.dli_fname == nullptr ? "" : info.dli_fname;
  return library.find("omp") != library.npos;  // libgomp, libomp, libiomp5.
}

std::string text_of(const sockaddr_storage& address, socklen_t size) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address.ss_family == AF_INET && size >= sizeof(sockaddr_in)) {
    const auto& ip = reinterpret_cast<const sockaddr_in&>(address);
    ::inet_ntop(AF_INET, &ip.sin_addr, text.data(), text.size());
    return std::string(text.data()) + ":" + std::to_string(ntohs(ip.sin_port));
  }
  if (address.ss_family == AF_INET6 && size >= sizeof(sockaddr_in6)) {
    const auto& ip = reinterpret_cast<const sockaddr_in6&>(address);
    ::inet_ntop(AF_INET6, &ip.sin6_addr, text.data(), text.size());
    return "[" + std::string(text.data()) + "]:" + std::to_string(ntohs(ip.sin6_port));
  }
  return "";
}

// "socket 127.0.0.1:4711 to 127.0.0.1:80"
std::string socket_text(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  std::string text = "socket";
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return text;
  const std::string own = text_of(address, size);
  if (!own.empty()) text += " " + own;
  size = sizeof(address);
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return text;
  const std::string peer = text_of(address, size);
  return peer.empty() ? text : text + " to " + peer;
}

std::set<std::string> mapped_shared_memory() {
  std::set<std::string> found;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const auto path = line.find(kSharedMemory);
    if (path != std::string::npos) found.insert(line.substr(path));
  }
  return found;
}

// Files whose names say that a process made them. An older process may have had its number, and
// another user's program may use such a number for something else.
void add_named_files(const char* folder, pid_t process, std::set<std::string>& found) {
  for_each_name(folder, [&](const char* name) {
    const std::string path = folder + std::string(name);
    struct stat status {};
    if (!names_process(name, process) || ::stat(path.c_str(), &status) != 0) return;
    if (status.st_uid == ::geteuid()) found.insert(path);
  });
}

// Shared memory may have any name, but the rank maps it.
void add_mapped_memory(const Leftovers& before, const Leftovers& now,
                       std::vector<std::string>& found) {
  if (std::includes(before.shared_memory.begin(), before.shared_memory.end(),
                    now.shared_memory.begin(), now.shared_memory.end())) {
    return;  // Reading the mappings takes long.
  }
  const auto mapped = mapped_shared_memory();
  for (const std::string& name : now.shared_memory) {
    const std::string path = kSharedMemory + name;
    if (before.shared_memory.contains(name) || !mapped.contains(path)) continue;
    if (std::find(found.begin(), found.end(), path) == found.end()) found.push_back(path);
  }
}

// libuv, which TCPStore uses, keeps a pipe with one byte as a lock.
bool is_lock_of_libuv(int fd, const std::string& target, const Leftovers& now) {
  if (!target.starts_with("pipe:")) return false;
  const auto ends = std::count_if(now.descriptors.begin(), now.descriptors.end(),
                                  [&](const auto& one) { return one.second == target; });
  int bytes = 0;
  return ends == 2 && ::ioctl(fd, FIONREAD, &bytes) == 0 && bytes == 1;
}

// A group that exists has connections, pipes and event descriptors.
bool has_group(const Leftovers& now) {
  return std::any_of(now.threads.begin(), now.threads.end(), is_of_group);
}

bool may_be_of_group(const std::string& target) {
  return target.starts_with("socket:") || target.starts_with("anon_inode:") ||
         target.starts_with("pipe:");
}

// The driver keeps threads and descriptors of many kinds.
bool uses_gpu(const Leftovers& now) {
  return std::any_of(now.descriptors.begin(), now.descriptors.end(),
                     [](const auto& one) { return one.second.starts_with("/dev/nvidia"); });
}

struct Found {
  std::vector<pid_t> threads;
  std::vector<int> descriptors;
  std::vector<std::string> files;

  bool is_empty() const { return threads.empty() && descriptors.empty() && files.empty(); }
};

Found found_now(const Leftovers& before) {
  const Leftovers now = leftovers_now();
  Found found;
  if (!uses_gpu(now)) {
    for (const pid_t thread : now.threads) {
      if (before.threads.contains(thread) || is_of_libtorch(thread_name(thread))) continue;
      if (!is_of_openmp(thread) && !is_of_group(thread)) found.threads.push_back(thread);
    }
    for (const auto& [fd, target] : now.descriptors) {
      const auto known = before.descriptors.find(fd);
      if (known != before.descriptors.end() && known->second == target) continue;
      if (is_lock_of_libuv(fd, target, now) || (may_be_of_group(target) && has_group(now)))
        continue;
      found.descriptors.push_back(fd);
    }
  }
  std::set_difference(now.named_files.begin(), now.named_files.end(), before.named_files.begin(),
                      before.named_files.end(), std::back_inserter(found.files));
  add_mapped_memory(before, now, found.files);
  return found;
}

std::string thread_text(pid_t thread) {
  const std::string name = thread_name(thread), function = function_of(thread);
  return "a thread: " + name + (function.empty() ? "" : ", in " + function);
}

std::string descriptor_text(int fd, const std::string& target) {
  return "descriptor " + std::to_string(fd) + ": " +
         (target.starts_with("socket:") ? socket_text(fd) : target);
}

}  // namespace

Leftovers leftovers_now() {
  Leftovers now;
  for_each_name("/proc/self/task", [&](const char* name) {
    if (const auto thread = parse_number<pid_t>(name)) now.threads.insert(*thread);
  });
  // The list is a descriptor itself, while it is read.
  const std::string own_list = "/proc/" + std::to_string(now.process) + "/fd";
  for_each_name("/proc/self/fd", [&](const char* name) {
    const auto fd = parse_number<int>(name);
    std::array<char, 4096> target{};
    const auto size =
        ::readlink((std::string("/proc/self/fd/") + name).c_str(), target.data(), target.size());
    if (!fd || size <= 0) return;
    const std::string text(target.data(), target.data() + size);
    if (text != own_list) now.descriptors.emplace(*fd, text);
  });
  for_each_name(kSharedMemory, [&](const char* name) { now.shared_memory.insert(name); });
  for (const char* folder : kFolders) add_named_files(folder, now.process, now.named_files);
  return now;
}

std::vector<std::string> new_leftovers(const Leftovers& before) {
  if (::getpid() != before.process) return {};
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  std::chrono::microseconds pause(50);
  Found found = found_now(before);
  while (!found.is_empty() && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(pause);  // Polls; /proc does not notify.
    pause = std::min(2 * pause, kPauseMax);
    found = found_now(before);
  }
  std::vector<std::string> texts;
  if (found.is_empty()) return texts;
  for (const pid_t thread : found.threads) texts.push_back(thread_text(thread));
  const Leftovers now = leftovers_now();
  for (const int fd : found.descriptors) {
    const auto known = now.descriptors.find(fd);
    if (known != now.descriptors.end()) texts.push_back(descriptor_text(fd, known->second));
  }
  for (const std::string& file : found.files) {
    texts.push_back((file.starts_with(kSharedMemory) ? "shared memory: " : "a file: ") + file);
  }
  return texts;
}

bool names_process(const std::string& file, pid_t pid) {
  const std::string number = std::to_string(pid);
  const auto is_digit = [&](std::size_t at) {
    return at < file.size() && std::isdigit(static_cast<unsigned char>(file[at])) != 0;
  };
  for (std::size_t at = file.find(number); at != std::string::npos;
       at = file.find(number, at + 1)) {
    if ((at == 0 || !is_digit(at - 1)) && !is_digit(at + number.size())) return true;
  }
  return false;
}

bool is_of_libtorch(const std::string& thread) {
  return thread.starts_with("pt_") || thread.starts_with(kGloo);
}

}  // namespace distrun

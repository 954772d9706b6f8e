#include "evidence/report/readable_stack.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "common/text/begins_with_any.h"
#include "common/text/printable.h"
#include "common/text/text_cut.h"

namespace distrun {

namespace {

// Functions that start a program or a thread.
constexpr std::array<std::string_view, 9> kStarts{
    "_start",       "__libc_start", "start_thread",
    "clone",        "__clone",      "execute_native_thread_routine",
    "Py_BytesMain", "Py_RunMain",   "std::thread::"};

// Functions between a call and the function that it calls.
constexpr std::array<std::string_view, 14> kPlumbing{"std::",
                                                     "__gnu_cxx::",
                                                     "c10::impl::",
                                                     "c10::detail::",
                                                     "c10::Dispatcher",
                                                     "c10::Operator",
                                                     "c10::TypedOperator",
                                                     "c10::KernelFunction",
                                                     "c10::BoxedKernel",
                                                     "c10::guts::",
                                                     "pybind11::",
                                                     "torch::jit::",
                                                     "torch::PythonArgParser",
                                                     "boost::asio::detail::"};

// Functions in which a library's own thread waits for work.
constexpr std::array<std::string_view, 20> kWaitsForWork{"blas_thread_server",
                                                         "gomp_",
                                                         "__kmp_",
                                                         "c10::ThreadPool::main_loop",
                                                         "c10d::ProcessGroupGloo::runLoop",
                                                         "c10d::ProcessGroupNCCL::Watchdog::",
                                                         "c10d::ProcessGroupNCCL::watchdogHandler",
                                                         "c10d::ProcessGroupNCCL::heartbeatMonitor",
                                                         "c10d::detail::LibUVStoreDaemon::run",
                                                         "c10d::detail::TCPStoreMasterDaemon::run",
                                                         "c10d::detail::BackgroundThread::",
                                                         "gloo::transport::tcp::Loop::run",
                                                         "gloo::transport::uv::",
                                                         "distrun::StackReporter::",
                                                         "torch::autograd::ReadyQueue::pop",
                                                         "torch::autograd::Engine::thread_init",
                                                         "ncclProxy",
                                                         "pthreadpool_",
                                                         "rasThreadMain",
                                                         "thread_main"};

// Waits inside libraries.
constexpr std::array<std::string_view, 2> kWaits{"uv_", "syscall"};

std::string_view last_part(std::string_view path) { return path.substr(path.rfind('/') + 1); }

// The path of a Python module without the installation folder.
std::string_view module_path(std::string_view path) {
  constexpr std::string_view kPackages = "-packages/";
  if (const auto at = path.rfind(kPackages); at != std::string_view::npos)
    return path.substr(at + kPackages.size());
  const auto at = path.find("/lib/python3.");
  const auto slash = at == std::string_view::npos ? at : path.find('/', at + 5);
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

// "walk ×255" in place of 255 equal calls.
std::vector<Frame> with_recursion_counted(std::vector<Frame> frames) {
  std::vector<Frame> counted;
  for (std::size_t begin = 0; begin < frames.size();) {
    std::size_t end = begin + 1;
    while (end < frames.size() && frames[end] == frames[begin]) ++end;
    counted.push_back(std::move(frames[begin]));
    if (end - begin > 1) counted.back().function += fmt::format(" ×{}", end - begin);
    begin = end;
  }
  return counted;
}

bool is_plumbing(const Frame& frame) {
  if (frame.function.empty() || begins_with_any(frame.function, kPlumbing)) return true;
  if (frame.source.starts_with("<frozen importlib")) return true;  // An import of Python.
  // The name is too long to be demangled.
  return frame.function.starts_with("_Z") &&
         (frame.function.find("pybind11") != std::string::npos ||
          frame.function.starts_with("_ZN3c104impl") ||
          frame.function.starts_with("_ZN3c1011BoxedKernel"));
}

}  // namespace

bool is_of_libc(const Frame& frame) {
  const std::string_view name = last_part(frame.module);
  return name.starts_with("libc.so") || name.starts_with("libpthread") ||
         name.starts_with("libc-2");
}

bool is_of_package(const Frame& frame) {
  return module_path(frame.source).size() != frame.source.size() ||
         frame.source.starts_with("<frozen");
}

std::vector<Frame> readable(const std::vector<Frame>& frames) {
  auto begin = frames.begin();
  while (begin != frames.end() && (frames.end() - begin > 1) &&
         (begin->function.empty() || begins_with_any(begin->function, kStarts))) {
    ++begin;
  }
  std::vector<Frame> shown;
  std::copy_if(begin, frames.end(), std::back_inserter(shown),
               [](const Frame& frame) { return !is_plumbing(frame); });
  if (shown.empty() && !frames.empty()) shown.push_back(frames.back());
  // Of several calls in the C library, keep the one that the program made.
  const auto call = std::find_if_not(shown.rbegin(), shown.rend(), is_of_libc).base();
  if (shown.end() - call > 1) shown.erase(call + 1, shown.end());
  return with_recursion_counted(std::move(shown));
}

namespace {

std::string raw_description(const Frame& frame) {
  constexpr std::size_t kLongest = 100;
  std::string function = frame.function.empty() ? "??" : frame.function;
  if (is_of_libc(frame)) {
    // The C library's sources are of no use, and are not on every machine.
    function.erase(0, std::min(function.find_first_not_of('_'), function.size()));
    return fmt::format("{} ({})", function, last_part(frame.module));
  }
  function = shortened(function, kLongest);
  if (frame.line == 0) return fmt::format("{} ({})", function, last_part(frame.module));
  const std::string_view source =
      frame.module.empty() ? module_path(frame.source) : last_part(frame.source);
  return fmt::format("{} ({}:{})", function, source, frame.line);
}

}  // namespace

std::string name_of(const Frame& frame) { return printable(frame.function, 100); }

// Names of functions and files may contain any bytes.
std::string described(const Frame& frame) { return printable(raw_description(frame), 400); }

bool is_idle(const std::vector<Frame>& frames) {
  const std::vector<Frame> shown = readable(frames);
  // It polls the store, which does not answer while stacks are read.
  const auto monitors = [](const Frame& frame) {
    return frame.function.starts_with("c10d::ProcessGroupNCCL::HeartbeatMonitor::");
  };
  if (std::any_of(shown.begin(), shown.end(), monitors)) return true;
  const auto waits = [](const Frame& frame) {
    return frame.function.empty() || is_of_libc(frame) || begins_with_any(frame.function, kWaits);
  };
  const auto last = std::find_if_not(shown.rbegin(), shown.rend(), waits);
  if (last == shown.rend()) return true;  // Only the system's functions.
  return begins_with_any(last->function, kWaitsForWork);
}

}  // namespace distrun

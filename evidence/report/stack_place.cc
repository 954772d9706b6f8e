#include "evidence/report/stack_place.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <string_view>

#include <fmt/format.h>

#include "common/text/begins_with_any.h"
#include "evidence/report/readable_stack.h"

namespace distrun {

namespace {

using FrameIterator = std::vector<Frame>::const_iterator;

// These libraries may be linked into the program itself.
constexpr std::array<std::string_view, 8> kLibraries{
    "distrun::", "c10d::", "c10::", "at::", "torch::", "gloo::", "std::", "boost::"};

// Checked first: the constructor of a process group waits for the store.
constexpr std::array<std::string_view, 6> kStore{
    "c10d::TCPStore::",  "c10d::FileStore::",    "c10d::PrefixStore::",
    "c10d::HashStore::", "distrun::StoreClient", "distrun::Store::"};
// A GPU runs collectives of NCCL: who waits for the GPU waits for other ranks.
constexpr std::array<std::string_view, 9> kRanks{"c10d::Work::wait",
                                                 "c10d::FutureWrappingWork::wait",
                                                 "c10d::ProcessGroup",
                                                 "c10d::AsyncWork",
                                                 "gloo::",
                                                 "nccl",
                                                 "cudaDeviceSynchronize",
                                                 "cudaStreamSynchronize",
                                                 "cudaEventSynchronize"};

bool is_python(const Frame& frame) { return frame.module.empty(); }

bool is_users(const Frame& frame, const std::string& program) {
  if (is_python(frame)) return !is_of_package(frame);
  return frame.module == program && !frame.function.empty() &&
         !begins_with_any(frame.function, kLibraries);
}

// True for _exception_logger.<locals>.wrapper and _wrapped_call_impl, but not for __next__.
bool is_wrapper(const Frame& frame) {
  const std::string_view name = frame.function;
  return (name.starts_with('_') && !name.starts_with("__")) ||
         name.find("wrapper") != std::string_view::npos;
}

StackPlace::Waits waits_in(FrameIterator begin, FrameIterator end) {
  const auto has = [&](const auto& beginnings) {
    return std::any_of(begin, end, [&](const Frame& frame) {
      return begins_with_any(frame.function, beginnings);
    });
  };
  if (has(kStore)) return StackPlace::Waits::kForStore;
  return has(kRanks) ? StackPlace::Waits::kForRanks : StackPlace::Waits::kNo;
}

// The function that the user's code has called; `end` if none is worth naming.
FrameIterator library_call(FrameIterator begin, FrameIterator end, StackPlace::Waits waits) {
  auto last_python = end;
  for (auto frame = begin; frame != end && is_python(*frame); ++frame) {
    if (!is_wrapper(*frame)) return frame;
    last_python = frame;
  }
  if (last_python != end || waits != StackPlace::Waits::kForRanks) return last_python;
  return std::find_if_not(begin, end, is_of_libc);
}

// A thread may be joined by Python, C++ or C.
bool joins_thread(const Frame& frame) {
  if (is_python(frame)) {
    const bool is_join = frame.function == "join" || frame.function.ends_with("Thread.join");
    return is_join && frame.source.ends_with("/threading.py") && is_of_package(frame);
  }
  const std::string_view name = frame.function;
  return name.starts_with("std::thread::join") || name.starts_with("pthread_join") ||
         name.starts_with("__pthread_clockjoin_ex");
}

}  // namespace

StackPlace place_of(const std::vector<Frame>& frames) {
  const std::string& program = frames.front().module;
  const auto of_user = [&](const Frame& frame) { return is_users(frame, program); };
  StackPlace place;
  std::copy_if(frames.begin(), frames.end(), std::back_inserter(place.path), of_user);
  const auto called = std::find_if(frames.rbegin(), frames.rend(), of_user).base();
  place.waits = waits_in(called, frames.end());
  const auto call = library_call(called, frames.end(), place.waits);
  if (place.path.empty()) {
    const auto last = std::find_if_not(frames.rbegin(), frames.rend(), is_of_libc);
    place.text = described(call != frames.end()    ? *call
                           : last != frames.rend() ? *last
                                                   : frames.back());
  } else if (call == frames.end()) {
    place.text = described(place.path.back());
  } else {
    place.text = fmt::format("{}, called by {}", name_of(*call), described(place.path.back()));
  }
  return place;
}

bool waits_for_thread(const std::vector<Frame>& frames) {
  // A signal handler may run while the thread waits.
  const auto at = std::find_if(frames.rbegin(), frames.rend(), [](const Frame& frame) {
    return joins_thread(frame) || (is_python(frame) && !is_of_package(frame));
  });
  return at != frames.rend() && joins_thread(*at);
}

}  // namespace distrun

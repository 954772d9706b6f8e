#include "testsuites/harness/run/python_crash.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "evidence/report/readable_stack.h"
#include "evidence/report/stack_place.h"
#include "evidence/stack.h"

namespace distrun {

namespace {

constexpr std::string_view kTitle = "Fatal Python error: ";
constexpr std::string_view kLastLine = "Extension modules: ";

struct Crash {
  std::string_view title;
  std::vector<Frame> frames;  // Of the thread that crashed, outermost first.
  std::vector<Frame> native;  // Calls of libraries in its innermost frame, outermost first.
  std::size_t lines = 0;
};

// Without its "\n". Removes it from `text`.
std::string_view take_line(std::string_view& text) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

bool includes(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// "Stack (most recent call first):", "Current thread 0x00007f41024a42c0 (most …", "Thread 0x…", and
// "Current thread's C stack trace …".
bool begins_stack(std::string_view line) {
  return (line.starts_with("Stack (") || line.starts_with("Thread 0x") ||
          line.starts_with("Current thread")) &&
         line.ends_with("(most recent call first):");
}

bool is_of_crashed_thread(std::string_view head) {
  return head.starts_with("Stack (") || head.starts_with("Current thread 0x");
}

// LibTorch's "SIGSEGV(11), PID: 4711, Thread 4712: "
bool begins_native_stack(std::string_view line) {
  return line.starts_with("SIG") && includes(line, "), PID: ") && includes(line, ", Thread ");
}

struct NativeFrame {
  std::string_view function;  // "<unknown function>" without a name; empty for "PROGRAM() [0x1f]".
  std::string_view library;   // Its path.
};

// " frame #3: ffi_call + 0xcd (0x7f269fb95b0d in /lib/libffi.so.8)"
std::optional<NativeFrame> parse_native_frame(std::string_view line) {
  if (line.starts_with(' ')) line.remove_prefix(1);
  const std::size_t colon = line.find(": ");
  if (!line.starts_with("frame #") || colon == line.npos) return std::nullopt;
  line.remove_prefix(colon + 2);
  const std::size_t offset = line.rfind(" + 0x"), in = line.rfind(" in "), end = line.rfind(')');
  if (offset == line.npos || in == line.npos || in < offset || end < in) return NativeFrame{};
  return NativeFrame{line.substr(0, offset), line.substr(in + 4, end - in - 4)};
}

// Removes the stacks and the empty lines between them from `text`.  The first is that of the thread
// that crashed; its outer calls are Python's own.
void take_native_stacks(std::string_view& text, Crash& crash) {
  bool is_of_library = true, has_ended = false;
  for (std::string_view rest = text; !rest.empty(); ++crash.lines, text = rest) {
    const std::string_view line = take_line(rest);
    const auto frame = parse_native_frame(line);
    if (!frame && !line.empty() && !begins_native_stack(line)) return;
    has_ended = has_ended || line.empty();
    if (!frame || has_ended) continue;
    const std::string_view name = frame->function;
    is_of_library = is_of_library && !name.empty() && !includes(frame->library, "/libpython") &&
                    !name.starts_with("Py") && !name.starts_with("_Py");
    const bool is_handler = name.starts_with("c10::FatalSignalHandler::");
    if (is_of_library && !is_handler && !name.starts_with('<')) {
      crash.native.push_back({.function = std::string(name),
                              .source = "",
                              .line = 0,
                              .module = std::string(frame->library)});
    }
  }
}

// `  File "/src/my_test.py", line 12 in test_reads`
std::optional<Frame> parse_frame(std::string_view line) {
  constexpr std::string_view kFile = "  File \"", kLine = "\", line ", kFunction = " in ";
  const std::size_t number = line.rfind(kLine);
  if (!line.starts_with(kFile) || number == line.npos) return std::nullopt;
  const std::size_t function = line.find(kFunction, number);
  if (function == line.npos) return std::nullopt;
  Frame frame{.function = std::string(line.substr(function + kFunction.size())),
              .source = std::string(line.substr(kFile.size(), number - kFile.size())),
              .line = 0,
              .module = ""};
  std::from_chars(line.data() + number + kLine.size(), line.data() + function, frame.line);
  if (!is_of_package(frame)) frame.source.erase(0, frame.source.rfind('/') + 1);
  return frame;
}

// From the test on. Decorators of the test, and what starts threads, are of packages.
std::vector<Frame> from_the_test_on(std::vector<Frame> frames) {
  const auto host = std::find_if(frames.rbegin(), frames.rend(), [](const Frame& frame) {
    return frame.function.ends_with("distrun_runs_test");
  });
  frames.erase(frames.begin(), host.base());
  const auto users = std::find_if_not(frames.begin(), frames.end(), is_of_package);
  if (users != frames.end()) frames.erase(frames.begin(), users);
  return frames;
}

// A crash at the start of `text`, which it removes from `text`.
std::optional<Crash> take_crash(std::string_view& whole) {
  Crash crash;
  std::string_view text = whole;
  if (begins_native_stack(text.substr(0, text.find('\n')))) take_native_stacks(text, crash);
  if (!text.starts_with(kTitle)) return std::nullopt;
  crash.title = take_line(text);
  ++crash.lines;
  bool is_in_stack = false, is_of_crashed = false;
  while (!text.empty()) {
    std::string_view rest = text;
    const std::string_view line = take_line(rest);
    const bool is_last = line.starts_with(kLastLine);
    if (begins_stack(line)) {
      is_in_stack = true;
      is_of_crashed = is_of_crashed_thread(line);
    } else if (is_in_stack && line.starts_with("  ")) {
      auto frame = parse_frame(line);
      if (is_of_crashed && frame) crash.frames.push_back(std::move(*frame));
    } else if (line.empty()) {
      is_in_stack = false;
    } else if (!is_last && !line.starts_with("Python runtime state: ")) {
      break;
    }
    text = rest;
    ++crash.lines;
    if (is_last) break;
  }
  std::reverse(crash.frames.begin(), crash.frames.end());
  crash.frames = from_the_test_on(std::move(crash.frames));
  if (!crash.frames.empty()) crash.frames = readable(crash.frames);
  std::reverse(crash.native.begin(), crash.native.end());
  if (!crash.native.empty()) crash.native = readable(crash.native);
  whole = text;
  return crash;
}

std::string text_of(const Crash& crash) {
  std::string text = std::string(crash.title) + '\n';
  for (const auto* frames : {&crash.frames, &crash.native}) {
    for (const Frame& frame : *frames) text += fmt::format("  {}\n", described(frame));
  }
  const std::size_t shown = 1 + crash.frames.size() + crash.native.size();
  if (shown < crash.lines) {
    text += fmt::format("… {} lines left out; --json FILE writes them\n", crash.lines - shown);
  }
  return text;
}

}  // namespace

std::string place_of_python_crash(std::string_view output) {
  std::string place;
  while (!output.empty()) {
    const auto crash = take_crash(output);
    if (crash) {
      place = crash->frames.empty() ? "" : place_of(crash->frames).text;
    } else {
      take_line(output);
    }
  }
  return place;
}

std::string with_short_python_crashes(std::string_view output) {
  std::string text;
  while (!output.empty()) {
    if (const auto crash = take_crash(output)) {
      text += text_of(*crash);
      continue;
    }
    const std::string_view before = output;
    take_line(output);
    text += before.substr(0, before.size() - output.size());
  }
  return text;
}

}  // namespace distrun

#include "evidence/stacks/python_frames.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "evidence/python/python_layout.h"
#include "evidence/python/python_stacks.h"

namespace distrun {

namespace {

std::string_view base_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

// python3.11, libpython3.11.so.1.0, and Conda's python.
bool may_hold_python(std::string_view file) {
  const std::string_view name = base_name(file);
  return name.starts_with("python") || name.starts_with("libpython");
}

// 3.10 from "python3.10": this version has no symbol for it.
std::optional<PythonVersion> version_in(std::string_view file) {
  const std::string_view name = base_name(file);
  return name.find("python3.10") != std::string_view::npos ? std::optional(PythonVersion{3, 10})
                                                           : std::nullopt;
}

std::optional<PythonVersion> version_of(const ReadMemory& read, const NativeStacks::Module& module,
                                        SymbolNames& names) {
  const auto symbol = names.address_of(module.file, "Py_Version");
  if (!symbol) return version_in(module.file);
  const auto hex = read_value<std::uint64_t>(read, *symbol + NativeStacks::bias_of(module));
  return hex ? std::optional(python_version(*hex)) : std::nullopt;
}

}  // namespace

PythonFrames::PythonFrames(const StoppedProcess& process,
                           const std::vector<NativeStacks::Module>& modules, SymbolNames& names) {
  const ReadMemory read = [&process](std::uint64_t address, void* into, std::size_t size) {
    return process.read(address, into, size);
  };
  for (const NativeStacks::Module& module : modules) {
    if (!may_hold_python(module.file)) continue;
    const auto symbol = names.address_of(module.file, "_PyRuntime");
    if (!symbol) continue;
    const std::uint64_t runtime = *symbol + NativeStacks::bias_of(module);
    const auto version = version_of(read, module, names);
    const auto layout = version ? python_layout(read, runtime, *version) : std::nullopt;
    if (layout) by_thread_ = python_stacks(read, runtime, *layout);
    return;
  }
}

void PythonFrames::put_into(std::vector<Frame>& frames, std::uint64_t thread_pointer) const {
  const auto found = by_thread_.find(thread_pointer);
  if (found != by_thread_.end() && !found->second.empty()) merge_python(frames, found->second);
}

void merge_python(std::vector<Frame>& frames, const std::vector<Frame>& python) {
  const auto interprets = [](const Frame& frame) {
    return frame.function.starts_with("_PyEval_EvalFrame");
  };
  const auto is_pythons = [](const Frame& frame) { return may_hold_python(frame.module); };
  auto last = std::find_if(frames.rbegin(), frames.rend(), interprets);
  // A compiler may split the interpreter into parts without names.
  if (last == frames.rend()) last = std::find_if(frames.rbegin(), frames.rend(), is_pythons);
  if (last == frames.rend()) {
    frames = python;
    return;
  }
  const std::string interpreter = last->module;
  auto keep = last.base();
  while (keep != frames.end() && keep->module == interpreter) ++keep;
  std::vector<Frame> merged = python;
  merged.insert(merged.end(), keep, frames.end());
  frames = std::move(merged);
}

}  // namespace distrun

#include "common/crash/backtrace.h"

#include <climits>

#include <dlfcn.h>
#include <execinfo.h>
#include <unistd.h>

namespace distrun {

namespace {

std::array<char, PATH_MAX> program_path{};

bool is_code(const void* address) {
  dl_find_object found{};
  return ::_dl_find_object(const_cast<void*>(address), &found) == 0;
}

}  // namespace

void Backtrace::prepare() {
  std::array<void*, 4> frames;
  ::backtrace(frames.data(), static_cast<int>(frames.size()));  // Loads libgcc_s.
  const auto size = ::readlink("/proc/self/exe", program_path.data(), program_path.size() - 1);
  program_path[size > 0 ? static_cast<std::size_t>(size) : 0] = '\0';
}

void Backtrace::capture() {
  std::array<void*, kFramesMax> addresses;
  end_ = ::backtrace(addresses.data(), kFramesMax);
  begin_ = 1;  // Skips this function.
  for (int i = 0; i < end_; ++i) {
    frames_[static_cast<std::size_t>(i)] = {.address = addresses[static_cast<std::size_t>(i)]};
  }
}

void Backtrace::begin_at(const void* instruction, const void* const* return_address) {
  for (int i = begin_; i < end_; ++i) {
    Frame& frame = frames_[static_cast<std::size_t>(i)];
    if (frame.address != instruction) continue;
    frame.exact = true;
    begin_ = i;
    if (is_code(instruction)) return;
  }
  frames_[0] = {.address = instruction, .exact = true};
  begin_ = 0;
  end_ = 1;
  if (!is_code(instruction))
    frames_[static_cast<std::size_t>(end_++)] = {.address = *return_address};
}

int Backtrace::module_of(const link_map& loaded) {
  for (int i = 0; i < modules_used_; ++i) {
    if (modules_[static_cast<std::size_t>(i)].base == &loaded) return i;
  }
  if (modules_used_ == static_cast<int>(modules_.size())) return -1;
  Module& module = modules_[static_cast<std::size_t>(modules_used_)];
  const bool is_program = loaded.l_name == nullptr || *loaded.l_name == '\0';
  module.base = &loaded;
  module.path = is_program ? program_path.data() : loaded.l_name;
  module.symbols.open(is_program ? "/proc/self/exe" : loaded.l_name);
  return modules_used_++;
}

void Backtrace::find_names() {
  for (int i = begin_; i < end_; ++i) {
    Frame& frame = frames_[static_cast<std::size_t>(i)];
    // A call that never returns may be a function's last instruction.
    const auto* place = static_cast<const char*>(frame.address) - (frame.exact ? 0 : 1);
    dl_find_object found{};
    if (::_dl_find_object(const_cast<char*>(place), &found) != 0) continue;
    frame.module = module_of(*found.dlfo_link_map);
    frame.in_module = reinterpret_cast<std::uintptr_t>(place) - found.dlfo_link_map->l_addr;
    if (frame.module < 0) continue;
    const auto& symbols = modules_[static_cast<std::size_t>(frame.module)].symbols;
    if (const auto function = symbols.find(frame.in_module)) frame.function = *function;
  }
}

void Backtrace::begin_behind(bool (*unwanted)(std::string_view name)) {
  for (int i = end_ - 1; i >= begin_; --i) {
    const char* name = frames_[static_cast<std::size_t>(i)].function.name;
    if (name == nullptr || !unwanted(name)) continue;
    const int module = frames_[static_cast<std::size_t>(i)].module;
    for (begin_ = i + 1; begin_ < end_; ++begin_) {
      const Frame& frame = frames_[static_cast<std::size_t>(begin_)];
      if (frame.function.name != nullptr || frame.module != module) return;
    }
    return;
  }
}

void Backtrace::print(Text& text) const {
  for (int i = begin_; i < end_; ++i) {
    const Frame& frame = frames_[static_cast<std::size_t>(i)];
    text.add("#").add_number(i - begin_).add(" ");
    if (frame.function.name != nullptr) {
      text.add(frame.function.name).add("+0x").add_hex(frame.function.offset);
    } else {
      text.add("0x").add_hex(reinterpret_cast<std::uintptr_t>(frame.address));
    }
    if (frame.module >= 0) {
      text.add(" (").add(modules_[static_cast<std::size_t>(frame.module)].path);
      text.add("+0x").add_hex(frame.in_module).add(")");
    }
    text.add("\n");
  }
}

}  // namespace distrun

#include "evidence/stacks/native_stacks.h"

#include <elfutils/libdwfl.h>

namespace distrun {

namespace {

constexpr std::size_t kNativeFramesMax = 256;

// SymbolNames reads symbols and lines.
int no_debug_file(Dwfl_Module* /*module*/, void** /*data*/, const char* /*name*/,
                  Dwarf_Addr /*base*/, const char* /*file*/, const char* /*link*/,
                  GElf_Word /*checksum*/, char** /*path*/) {
  return -1;
}

const Dwfl_Callbacks kCallbacks{.find_elf = ::dwfl_linux_proc_find_elf,
                                .find_debuginfo = no_debug_file,
                                .section_address = nullptr,
                                .debuginfo_path = nullptr};

std::string last_error() {
  const char* text = ::dwfl_errmsg(-1);
  return text != nullptr ? text : "unknown error";
}

// Does not open the file: hundreds of libraries may be loaded, and a stack needs only a few.
NativeStacks::Module module_of(Dwfl_Module* module) {
  const char* name =
      ::dwfl_module_info(module, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr);
  return {name != nullptr ? name : "", module};
}

struct Walk {
  Dwfl* session;
  SymbolNames& names;
  std::chrono::steady_clock::time_point deadline;
  std::vector<Frame> frames;  // Innermost first.
};

Frame frame_at(Walk& walk, Dwarf_Addr address) {
  Dwfl_Module* module = ::dwfl_addrmodule(walk.session, address);
  if (module == nullptr) return {};
  const auto found = module_of(module);
  return walk.names.frame_at(found.file, address - NativeStacks::bias_of(found));
}

int add_frame(Dwfl_Frame* frame, void* context) {
  Walk& walk = *static_cast<Walk*>(context);
  Dwarf_Addr address = 0;
  bool is_exact = false;
  if (!::dwfl_frame_pc(frame, &address, &is_exact)) return DWARF_CB_ABORT;
  // A call that never returns may be a function's last instruction.
  walk.frames.push_back(frame_at(walk, is_exact ? address : address - 1));
  const bool goes_on =
      walk.frames.size() < kNativeFramesMax && std::chrono::steady_clock::now() < walk.deadline;
  return goes_on ? DWARF_CB_OK : DWARF_CB_ABORT;
}

}  // namespace

std::uint64_t NativeStacks::bias_of(const Module& module) {
  GElf_Addr bias = 0;
  return ::dwfl_module_getelf(module.handle, &bias) != nullptr ? bias : 0;
}

NativeStacks::NativeStacks(const StoppedProcess& process, SymbolNames& names)
    : names_(names), session_(::dwfl_begin(&kCallbacks)) {
  if (session_ == nullptr) {
    problem_ = last_error();
    return;
  }
  ::dwfl_report_begin(session_);
  const int reported = ::dwfl_linux_proc_report(session_, process.pid());
  ::dwfl_report_end(session_, nullptr, nullptr);
  if (reported != 0 || ::dwfl_linux_proc_attach(session_, process.pid(), true) != 0) {
    problem_ = last_error();
    return;
  }
  const auto note = [](Dwfl_Module* module, void** /*data*/, const char* /*name*/,
                       Dwarf_Addr /*base*/, void* modules) -> int {
    static_cast<std::vector<Module>*>(modules)->push_back(module_of(module));
    return DWARF_CB_OK;
  };
  ::dwfl_getmodules(session_, note, &modules_, 0);
}

NativeStacks::~NativeStacks() {
  if (session_ != nullptr) ::dwfl_end(session_);
}

std::string NativeStacks::read(pid_t tid, std::vector<Frame>& frames,
                               std::chrono::steady_clock::time_point deadline) {
  if (!problem_.empty()) return problem_;
  if (std::chrono::steady_clock::now() >= deadline) return "there was no time left";
  Walk walk{session_, names_, deadline, {}};
  const int ended = ::dwfl_getthread_frames(session_, tid, add_frame, &walk);
  frames.insert(frames.end(), walk.frames.rbegin(), walk.frames.rend());
  return ended < 0 && walk.frames.empty() ? last_error() : "";
}

}  // namespace distrun

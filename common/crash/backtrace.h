// Backtrace is the stack of a thread that is about to fail: addresses, then names, then text.
//
//     Backtrace::prepare();                    // early: what follows takes no memory then
//     static Backtrace trace;                  // large
//     trace.capture();
//     trace.find_names();
//     trace.begin_behind([](std::string_view name) { return name == "abort"; });
//     trace.print(text);                       // "#0 _Z5trainv+0x1c (/home/me/worker+0x12ab)\n…"
//
// Innermost first.  Names are as the linker has them (demangle.h turns them into C++), of every
// function that the symbol tables of program and libraries know (elf_symbols.h).  The number
// behind the file is what `addr2line -e FILE` takes.
//
// After prepare(), every method is async-signal-safe as far as can be had: no memory is taken, no
// lock waited for.  Unwinding reads a stack that may be damaged; a crash in it is the caller's to
// survive.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "common/crash/elf_symbols.h"
#include "common/text/fixed_text.h"
#include "common/units.h"

namespace distrun {

class Backtrace {
 public:
  static constexpr int kFramesMax = 64;
  using Text = FixedText<32 * kKiB>;

  // Loads what unwinding needs.  Call it once, where memory may be taken.
  static void prepare();

  // The stack of the caller.
  void capture();

  // The instruction at which a signal struck is the first frame; what lies above it is the
  // handler's.  Where it is no code, as after a call of a null pointer, nothing can be unwound: its
  // caller, whose address is at `return_address`, is the only other frame.
  void begin_at(const void* instruction, const void* const* return_address);

  void find_names();

  // Leaves out the frames up to the outermost one whose name is `unwanted`, if there is one, and
  // those without a name that follow it in the same library: they are a part of what it does.
  // Requires find_names().
  void begin_behind(bool (*unwanted)(std::string_view name));

  void print(Text& text) const;

 private:
  struct Frame {
    const void* address = nullptr;
    bool exact = false;           // An instruction; else the one behind a call.
    int module = -1;              // Index in modules_.
    std::uint64_t in_module = 0;  // The address as the module's file has it.
    FunctionName function;
  };
  struct Module {
    const void* base = nullptr;  // Its link_map.
    const char* path = "";
    ElfSymbols symbols;
  };

  int module_of(const link_map& loaded);

  std::array<Frame, kFramesMax> frames_{};
  int begin_ = 0, end_ = 0;
  std::array<Module, 32> modules_{};
  int modules_used_ = 0;
};

}  // namespace distrun

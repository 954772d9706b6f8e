// Backtrace is the stack of a thread that is about to fail: addresses, then names, then text.
//
//     Backtrace::prepare();                    // early: it allocates, the other calls do not
//     static Backtrace trace;                  // large
//     trace.capture();
//     trace.find_names();
//     trace.begin_behind([](std::string_view name) { return name == "abort"; });
//     trace.print(text);                       // "#0 _Z5trainv+0x1c (/home/me/worker+0x12ab)\n…"
//
// Frames are innermost first. Names are mangled (demangle.h demangles them). The number after the
// file is what `addr2line -e FILE` takes.
//
// After prepare(), every method is async-signal-safe. Unwinding may crash on a damaged stack; the
// caller must survive that.
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

  // Loads what unwinding needs. Call it once, outside signal handlers.
  static void prepare();

  void capture();

  // Makes `instruction`, at which a signal arrived, the first frame; the handler's own frames are
  // dropped. If it is not code (a call through a null pointer), unwinding is impossible: the only
  // other frame is the caller, read from `return_address`.
  void begin_at(const void* instruction, const void* const* return_address);

  void find_names();

  // Drops all frames up to the outermost one named `unwanted`, and the nameless ones after it in
  // the same library. Does nothing without such a frame. Requires find_names().
  void begin_behind(bool (*unwanted)(std::string_view name));

  void print(Text& text) const;

 private:
  struct Frame {
    const void* address = nullptr;
    bool exact = false;           // False: a return address.
    int module = -1;              // Index in modules_.
    std::uint64_t in_module = 0;  // Address within the module's file.
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

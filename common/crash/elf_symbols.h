// ElfSymbols finds the name of the function at an address in a program or library, static functions
// too, by the symbol table of its file: no debug information and no -rdynamic is needed, only that
// it has not been stripped.  A stripped one still names what it exports.
//
//     ElfSymbols symbols;
//     symbols.open("/proc/self/exe");
//     if (const auto found = symbols.find(address)) …  // {"_ZN12_GLOBAL__N_15trainEv", 28}
//
// Maps the file and takes no memory of its own: every method is async-signal-safe.  Whatever the
// file holds, nothing outside of it is read; one that is cut short meanwhile is SIGBUS.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include <link.h>

namespace distrun {

struct FunctionName {
  const char* name = nullptr;  // As in the file: mangled.  Valid for as long as the ElfSymbols.
  std::uint64_t offset = 0;    // Of the address in the function.
};

class ElfSymbols {
 public:
  ElfSymbols() = default;
  ElfSymbols(const ElfSymbols&) = delete;
  ElfSymbols& operator=(const ElfSymbols&) = delete;
  ~ElfSymbols();

  // Called once.  False where the file is not there, or no ELF file of this machine's kind.
  bool open(const char* path);

  // `address` as the file has it: without what was added to it when it was loaded.
  std::optional<FunctionName> find(std::uint64_t address) const;

 private:
  template <class T>
  std::span<const T> at(std::uint64_t offset, std::uint64_t size) const;
  void take(const ElfW(Shdr) & table, const ElfW(Shdr) & strings);

  const std::byte* file_ = nullptr;
  std::size_t size_ = 0;
  std::span<const ElfW(Sym)> symbols_;
  std::span<const char> strings_;  // Ends with a zero.
};

}  // namespace distrun

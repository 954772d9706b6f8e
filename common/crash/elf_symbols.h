// ElfSymbols names the function at an address of a program or library, static functions included.
// It reads the file's symbol table, which needs neither debug information nor -rdynamic. In a
// stripped file it finds only exported functions.
//
//     ElfSymbols symbols;
//     symbols.open("/proc/self/exe");
//     if (const auto found = symbols.find(address)) …  // {"_ZN12_GLOBAL__N_15trainEv", 28}
//
// Every method is async-signal-safe. Reads stay within the file, whatever it contains; a file that
// is truncated meanwhile raises SIGBUS.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include <link.h>

namespace distrun {

struct FunctionName {
  const char* name = nullptr;  // Mangled. Lives as long as the ElfSymbols.
  std::uint64_t offset = 0;    // From the start of the function.
};

class ElfSymbols {
 public:
  ElfSymbols() = default;
  ElfSymbols(const ElfSymbols&) = delete;
  ElfSymbols& operator=(const ElfSymbols&) = delete;
  ~ElfSymbols();

  // Call it once. False if the file does not exist or is not an ELF file of this machine's class.
  bool open(const char* path);

  // `address` is relative to the file, without the load address.
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

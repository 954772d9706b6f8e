// SymbolNames names the function, and the line if the file has debug information, at an address of
// a program or library.
//
//     SymbolNames names;
//     const Place place = names.find("/usr/lib/libtorch_cpu.so", 0x1234);
//     // {"c10d::TCPStore::waitForWorkers", "TCPStore.cpp", 412}
//
// Thread safety: any thread may call any method.  It remembers what it has found: ranks of a run
// are mostly at the same addresses.  Symbols that a package keeps in /usr/lib/debug are used too.
// Names and lines come from elfutils' libdw.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "evidence/stack.h"

namespace distrun {

struct Place {
  std::string function;  // Without parameters; empty if unknown.
  std::string source;    // Empty if unknown.
  int line = 0;
};

class SymbolNames {
 public:
  SymbolNames();
  ~SymbolNames();
  SymbolNames(const SymbolNames&) = delete;
  SymbolNames& operator=(const SymbolNames&) = delete;

  // `address` is relative to the file, as `addr2line -e FILE` takes it.
  Place find(const std::string& file, std::uint64_t address);
  Frame frame_at(const std::string& file, std::uint64_t address);

  // Closes the files, and keeps what was found in them. While a file is open, it is mapped: if
  // another process truncates it then, this process gets SIGBUS.
  void close_files();

  // The address of the symbol named `symbol`, relative to the file.
  std::optional<std::uint64_t> address_of(const std::string& file, const char* symbol);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace distrun

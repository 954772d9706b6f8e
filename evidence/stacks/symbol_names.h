// SymbolNames finds the function at an address of a program or library, and the line if there is
// debug information.
//
//     SymbolNames names;
//     const Place place = names.find("/usr/lib/libtorch_cpu.so", 0x1234);
//     // {"c10d::TCPStore::waitForWorkers", "TCPStore.cpp", 412}
//
// Thread safety: any thread may call any method. Results are remembered, as ranks of a run are
// mostly at the same addresses. Uses elfutils' libdw, and symbols in /usr/lib/debug.
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

  // `address` is relative to the file, like that of `addr2line -e FILE`.
  Place find(const std::string& file, std::uint64_t address);
  Frame frame_at(const std::string& file, std::uint64_t address);

  // Closes the files, but remembers results. While a file is open, it is mapped: if another process
  // truncates it, this process gets SIGBUS.
  void close_files();

  // The symbol's address, relative to the file.
  std::optional<std::uint64_t> address_of(const std::string& file, const char* symbol);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace distrun

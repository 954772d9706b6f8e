#include "evidence/stacks/symbol_names.h"

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string_view>
#include <utility>

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include "common/text/demangle.h"
#include "evidence/stacks/function_name.h"

namespace distrun {

namespace {

// The file is already known. libdw's own functions would load a library that asks servers.
int find_no_file(Dwfl_Module* /*module*/, void** /*data*/, const char* /*name*/,
                 Dwarf_Addr /*base*/, char** /*path*/, Elf** /*elf*/) {
  return -1;
}

// Debian, Fedora and others install debug information here. Returns -1 if there is none.
int find_debug_file(Dwfl_Module* module, void** /*data*/, const char* /*name*/, Dwarf_Addr /*base*/,
                    const char* /*file*/, const char* /*link*/, GElf_Word /*checksum*/,
                    char** path) {
  const unsigned char* id = nullptr;
  GElf_Addr address = 0;
  const int bytes = ::dwfl_module_build_id(module, &id, &address);
  if (bytes < 2) return -1;
  std::string found = fmt::format("/usr/lib/debug/.build-id/{:02x}/", id[0]);
  for (int i = 1; i < bytes; ++i) found += fmt::format("{:02x}", id[i]);
  found += ".debug";
  const int file = ::open(found.c_str(), O_RDONLY | O_CLOEXEC);
  if (file >= 0) *path = ::strdup(found.c_str());
  return file;
}

}  // namespace

struct SymbolNames::Impl {
  // Identifies the file at a path: a program may be rebuilt while distrun runs.
  struct Identity {
    dev_t device = 0;
    ino_t inode = 0;
    off_t size = 0;
    time_t seconds = 0;
    long nanoseconds = 0;
    bool operator==(const Identity&) const = default;
  };
  struct File {
    Identity identity;
    bool is_open = false;  // Whether opening was tried.
    Dwfl* session = nullptr;
    Dwfl_Module* module = nullptr;
    GElf_Addr bias = 0;
    std::map<std::uint64_t, Place> places;

    void close() {
      if (session != nullptr) ::dwfl_end(session);
      session = nullptr;
      module = nullptr;
      is_open = false;
    }
  };

  ~Impl() { close_all(); }

  void close_all() {
    for (auto& [path, file] : files) file.close();
  }

  // Not opened yet; null if the file does not exist.
  File* at(const std::string& path) {
    struct stat status {};
    // Opening a pipe would block.
    if (::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return nullptr;
    const Identity identity{status.st_dev, status.st_ino, status.st_size, status.st_mtim.tv_sec,
                            status.st_mtim.tv_nsec};
    File& file = files[path];
    if (file.identity != identity) {
      file.close();
      file = {};
      file.identity = identity;
    }
    return &file;
  }

  void open(File& file, const std::string& path) {
    if (std::exchange(file.is_open, true)) return;
    file.session = ::dwfl_begin(&callbacks);
    if (file.session == nullptr) return;
    ::dwfl_report_begin(file.session);
    file.module = ::dwfl_report_offline(file.session, path.c_str(), path.c_str(), -1);
    ::dwfl_report_end(file.session, nullptr, nullptr);
    if (file.module != nullptr && ::dwfl_module_getelf(file.module, &file.bias) == nullptr) {
      file.module = nullptr;
    }
  }

  static Place look_up(const File& file, std::uint64_t address) {
    Place place;
    if (file.module == nullptr) return place;
    const GElf_Addr at = address + file.bias;
    if (const char* name = ::dwfl_module_addrname(file.module, at)) {
      place.function = short_function_name(demangled_symbol(name));
    }
    if (take_inlined_call(file.module, at, place)) return place;
    const Place code = place_of_code(file.module, at);
    place.source = code.source;
    place.line = code.line;
    return place;
  }

  // Inlined code has the source and line of the inlined function. If so, sets the place of the call
  // instead, and returns true. Calls by the standard library do not count: they lead to the code of
  // a lambda, which is what the user knows.
  static bool take_inlined_call(Dwfl_Module* module, GElf_Addr at, Place& place) {
    Dwarf_Addr bias = 0;
    Dwarf_Die* unit = ::dwfl_module_addrdie(module, at, &bias);
    if (unit == nullptr) return false;
    Dwarf_Die* scopes = nullptr;
    const int count = ::dwarf_getscopes(unit, at - bias, &scopes);
    if (count <= 0) return false;
    Dwarf_Die innermost = scopes[0];
    std::free(scopes);
    Dwarf_Die* parents = nullptr;
    const int depth = ::dwarf_getscopes_die(&innermost, &parents);
    std::optional<Place> of_user, of_library;
    for (int i = 0; i < depth && ::dwarf_tag(&parents[i]) != DW_TAG_subprogram; ++i) {
      if (::dwarf_tag(&parents[i]) != DW_TAG_inlined_subroutine) continue;
      if (auto call = place_of_call(unit, parents[i])) {
        (is_of_standard_library(call->source) ? of_library : of_user) = std::move(call);
      }
    }
    if (depth > 0) std::free(parents);
    if (!of_user && of_library) {
      const Place code = place_of_code(module, at);
      of_user = code.line > 0 && !is_of_standard_library(code.source) ? code : *of_library;
    }
    if (!of_user) return false;
    place.source = of_user->source;
    place.line = of_user->line;
    return true;
  }

  static std::optional<Place> place_of_call(Dwarf_Die* unit, Dwarf_Die& call) {
    Dwarf_Attribute attribute;
    Dwarf_Word line = 0, number = 0;
    Dwarf_Files* files = nullptr;
    if (::dwarf_formudata(::dwarf_attr(&call, DW_AT_call_line, &attribute), &line) != 0 ||
        ::dwarf_formudata(::dwarf_attr(&call, DW_AT_call_file, &attribute), &number) != 0 ||
        ::dwarf_getsrcfiles(unit, &files, nullptr) != 0) {
      return std::nullopt;
    }
    const char* source = ::dwarf_filesrc(files, number, nullptr, nullptr);
    if (source == nullptr) return std::nullopt;
    return Place{.function = "", .source = source, .line = static_cast<int>(line)};
  }

  static Place place_of_code(Dwfl_Module* module, GElf_Addr at) {
    Place place;
    Dwfl_Line* line = ::dwfl_module_getsrc(module, at);
    if (line == nullptr) return place;
    const char* source = ::dwfl_lineinfo(line, nullptr, &place.line, nullptr, nullptr, nullptr);
    if (source != nullptr && place.line > 0) place.source = source;
    return place;
  }

  // "/usr/include/c++/12/thread"
  static bool is_of_standard_library(std::string_view source) {
    return source.find("/c++/") != std::string_view::npos;
  }

  std::mutex mutex;
  Dwfl_Callbacks callbacks{.find_elf = find_no_file,
                           .find_debuginfo = find_debug_file,
                           .section_address = ::dwfl_offline_section_address,
                           .debuginfo_path = nullptr};
  std::map<std::string, File> files;
};

SymbolNames::SymbolNames() : impl_(std::make_unique<Impl>()) {}
SymbolNames::~SymbolNames() = default;

Place SymbolNames::find(const std::string& path, std::uint64_t address) {
  const std::lock_guard lock(impl_->mutex);
  auto* file = impl_->at(path);
  if (file == nullptr) return {};
  const auto [entry, is_new] = file->places.try_emplace(address);
  if (is_new) {
    impl_->open(*file, path);
    entry->second = Impl::look_up(*file, address);
  }
  return entry->second;
}

void SymbolNames::close_files() {
  const std::lock_guard lock(impl_->mutex);
  impl_->close_all();
}

Frame SymbolNames::frame_at(const std::string& file, std::uint64_t address) {
  const Place place = find(file, address);
  return {.function = place.function, .source = place.source, .line = place.line, .module = file};
}

std::optional<std::uint64_t> SymbolNames::address_of(const std::string& file, const char* symbol) {
  const std::lock_guard lock(impl_->mutex);
  auto* found_file = impl_->at(file);
  if (found_file == nullptr) return std::nullopt;
  impl_->open(*found_file, file);
  const auto& opened = *found_file;
  if (opened.module == nullptr) return std::nullopt;
  const int count = ::dwfl_module_getsymtab(opened.module);
  for (int i = 1; i < count; ++i) {
    GElf_Sym found;
    GElf_Addr address = 0;
    const char* name =
        ::dwfl_module_getsym_info(opened.module, i, &found, &address, nullptr, nullptr, nullptr);
    if (name == nullptr || std::strcmp(name, symbol) != 0 || found.st_shndx == SHN_UNDEF) continue;
    return address - opened.bias;
  }
  return std::nullopt;
}

}  // namespace distrun

#include "evidence/stacks/symbol_names.h"

#include <cstring>
#include <filesystem>
#include <map>
#include <system_error>
#include <utility>

#include <elfutils/libdwfl.h>
#include <fcntl.h>
#include <fmt/format.h>

#include "common/text/demangle.h"
#include "evidence/stacks/function_name.h"

namespace distrun {

namespace {

// The file is given. (libdw's own functions would load a library to ask servers for files.)
int find_no_file(Dwfl_Module* /*module*/, void** /*data*/, const char* /*name*/,
                 Dwarf_Addr /*base*/, char** /*path*/, Elf** /*elf*/) {
  return -1;
}

// Where Debian, Fedora and others install debug information.  -1: there is none.
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
  struct File {
    Dwfl* session = nullptr;
    Dwfl_Module* module = nullptr;
    GElf_Addr bias = 0;
  };

  ~Impl() {
    for (const auto& [path, file] : files) ::dwfl_end(file.session);
  }

  const File& open(const std::string& path) {
    const auto [entry, is_new] = files.try_emplace(path);
    File& file = entry->second;
    std::error_code error;
    if (!is_new || !std::filesystem::is_regular_file(path, error)) return file;  // Not a pipe.
    file.session = ::dwfl_begin(&callbacks);
    if (file.session == nullptr) return file;
    ::dwfl_report_begin(file.session);
    file.module = ::dwfl_report_offline(file.session, path.c_str(), path.c_str(), -1);
    ::dwfl_report_end(file.session, nullptr, nullptr);
    if (file.module != nullptr && ::dwfl_module_getelf(file.module, &file.bias) == nullptr) {
      file.module = nullptr;
    }
    return file;
  }

  Place look_up(const std::string& path, std::uint64_t address) {
    const File& file = open(path);
    Place place;
    if (file.module == nullptr) return place;
    const GElf_Addr at = address + file.bias;
    if (const char* name = ::dwfl_module_addrname(file.module, at)) {
      place.function = short_function_name(demangled_symbol(name));
    }
    Dwfl_Line* line = ::dwfl_module_getsrc(file.module, at);
    if (line == nullptr) return place;
    const char* source = ::dwfl_lineinfo(line, nullptr, &place.line, nullptr, nullptr, nullptr);
    if (source != nullptr && place.line > 0) place.source = source;
    return place;
  }

  Dwfl_Callbacks callbacks{.find_elf = find_no_file,
                           .find_debuginfo = find_debug_file,
                           .section_address = ::dwfl_offline_section_address,
                           .debuginfo_path = nullptr};
  std::map<std::string, File> files;
  std::map<std::pair<std::string, std::uint64_t>, Place> places;
};

SymbolNames::SymbolNames() : impl_(std::make_unique<Impl>()) {}
SymbolNames::~SymbolNames() = default;

const Place& SymbolNames::find(const std::string& file, std::uint64_t address) {
  const auto [entry, is_new] = impl_->places.try_emplace({file, address});
  if (is_new) entry->second = impl_->look_up(file, address);
  return entry->second;
}

Frame SymbolNames::frame_at(const std::string& file, std::uint64_t address) {
  const Place& place = find(file, address);
  return {.function = place.function, .source = place.source, .line = place.line, .module = file};
}

std::optional<std::uint64_t> SymbolNames::address_of(const std::string& file, const char* symbol) {
  const auto& opened = impl_->open(file);
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

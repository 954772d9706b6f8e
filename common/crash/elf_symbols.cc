#include "common/crash/elf_symbols.h"

#include <cstring>

#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace distrun {

namespace {

constexpr unsigned char kClass = sizeof(void*) == 8 ? ELFCLASS64 : ELFCLASS32;

bool is_function(const ElfW(Sym) & symbol) {
  const auto type = symbol.st_info & 15;  // ELF64_ST_TYPE and ELF32_ST_TYPE.
  return (type == STT_FUNC || type == STT_GNU_IFUNC) && symbol.st_shndx != SHN_UNDEF;
}

}  // namespace

ElfSymbols::~ElfSymbols() {
  if (file_ != nullptr) ::munmap(const_cast<std::byte*>(file_), size_);
}

// Empty if the `size` bytes are not all within the file.
template <class T>
std::span<const T> ElfSymbols::at(std::uint64_t offset, std::uint64_t size) const {
  if (offset > size_ || size > size_ - offset || offset % alignof(T) != 0) return {};
  return {reinterpret_cast<const T*>(file_ + offset), static_cast<std::size_t>(size / sizeof(T))};
}

bool ElfSymbols::open(const char* path) {
  const int file = ::open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (file < 0) return false;
  struct stat status {};
  void* mapped = MAP_FAILED;
  if (::fstat(file, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0) {
    size_ = static_cast<std::size_t>(status.st_size);
    mapped = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file, 0);
  }
  ::close(file);
  if (mapped == MAP_FAILED) return false;
  file_ = static_cast<const std::byte*>(mapped);

  const auto headers = at<ElfW(Ehdr)>(0, sizeof(ElfW(Ehdr)));
  if (headers.empty()) return false;
  const ElfW(Ehdr)& header = headers.front();
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != kClass) {
    return false;
  }
  const auto sections =
      at<ElfW(Shdr)>(header.e_shoff, std::uint64_t{header.e_shnum} * sizeof(ElfW(Shdr)));
  // The full table, if it exists, includes the exported symbols.
  for (const auto type : {SHT_SYMTAB, SHT_DYNSYM}) {
    for (const auto& section : sections) {
      if (section.sh_type != static_cast<ElfW(Word)>(type) || section.sh_link >= sections.size()) {
        continue;
      }
      take(section, sections[section.sh_link]);
      if (!symbols_.empty()) return true;
    }
  }
  return false;
}

void ElfSymbols::take(const ElfW(Shdr) & table, const ElfW(Shdr) & strings) {
  const auto names = at<char>(strings.sh_offset, strings.sh_size);
  if (names.empty() || names.back() != '\0') return;
  strings_ = names;
  symbols_ = at<ElfW(Sym)>(table.sh_offset, table.sh_size);
}

std::optional<FunctionName> ElfSymbols::find(std::uint64_t address) const {
  for (const auto& symbol : symbols_) {
    if (address < symbol.st_value || address - symbol.st_value >= symbol.st_size) continue;
    if (!is_function(symbol) || symbol.st_name >= strings_.size()) continue;
    return FunctionName{strings_.data() + symbol.st_name, address - symbol.st_value};
  }
  return std::nullopt;
}

}  // namespace distrun

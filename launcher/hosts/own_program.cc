#include "launcher/hosts/own_program.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>
#include <utility>

#include <elf.h>
#include <fmt/format.h>
#include <link.h>

namespace distrun {

namespace {

constexpr const char* kThisProgram = "/proc/self/exe";

std::string hex_of(const unsigned char* bytes, std::size_t size) {
  std::string text;
  for (std::size_t at = 0; at < size; ++at) text += fmt::format("{:02x}", bytes[at]);
  return text;
}

// In a segment of notes: a header, a name and a value for each, all of multiples of 4 bytes.
std::string build_id_in(const unsigned char* at, std::size_t size) {
  const auto padded = [](std::size_t bytes) { return (bytes + 3) / 4 * 4; };
  while (size >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) note;
    std::memcpy(&note, at, sizeof(note));
    const unsigned char* name = at + sizeof(note);
    const std::size_t whole = sizeof(note) + padded(note.n_namesz) + padded(note.n_descsz);
    if (whole > size) break;
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && std::memcmp(name, "GNU", 4) == 0) {
      return hex_of(name + 4, note.n_descsz);
    }
    at += whole;
    size -= whole;
  }
  return "";
}

// The first object is the program.
int find_build_id(dl_phdr_info* program, std::size_t, void* found) {
  for (int i = 0; i < program->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = program->dlpi_phdr[i];
    if (segment.p_type != PT_NOTE) continue;
    const auto address = program->dlpi_addr + segment.p_vaddr;
    // NOLINTNEXTLINE(performance-no-int-to-ptr): the loader gives addresses as integers.
    const auto* notes = reinterpret_cast<const unsigned char*>(address);
    auto& id = *static_cast<std::string*>(found);
    if (id.empty()) id = build_id_in(notes, segment.p_memsz);
  }
  return 1;
}

}  // namespace

Result<ProgramCopy> own_program() {
  std::error_code error;
  const auto bytes = std::filesystem::file_size(kThisProgram, error);
  if (error) return Error::from_errno(kThisProgram, error.value());
  std::string id;
  ::dl_iterate_phdr(find_build_id, &id);
  if (id.empty()) {
    return Error{ErrorKind::kSystem,
                 "this distrun has no build ID, so it cannot be copied; link it with --build-id"};
  }
  return ProgramCopy{"distrun-" + id, bytes};
}

Result<std::shared_ptr<const std::string>> read_own_program() {
  std::ifstream file(kThisProgram, std::ios::binary);
  auto bytes = std::make_shared<std::string>(std::istreambuf_iterator<char>(file),
                                             std::istreambuf_iterator<char>());
  if (!file || bytes->empty()) return Error::from_errno(kThisProgram);
  return std::shared_ptr<const std::string>(std::move(bytes));
}

}  // namespace distrun

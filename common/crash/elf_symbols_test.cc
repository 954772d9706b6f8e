#include "common/crash/elf_symbols.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <dlfcn.h>
#include <gtest/gtest.h>

namespace distrun {
namespace {

__attribute__((noinline)) int a_static_function(int number) { return number + 1; }

std::uint64_t in_file(const void* address) {
  dl_find_object found{};
  EXPECT_EQ(::_dl_find_object(const_cast<void*>(address), &found), 0);
  return reinterpret_cast<std::uintptr_t>(address) - found.dlfo_link_map->l_addr;
}

TEST(ElfSymbolsTest, NamesAStaticFunctionOfThisProgram) {
  ElfSymbols symbols;
  ASSERT_TRUE(symbols.open("/proc/self/exe"));
  const auto* function = reinterpret_cast<const char*>(&a_static_function);
  const auto found = symbols.find(in_file(function) + 2);
  ASSERT_TRUE(found);
  EXPECT_NE(std::string(found->name).find("a_static_function"), std::string::npos) << found->name;
  EXPECT_EQ(found->offset, 2u);
}

TEST(ElfSymbolsTest, NamesAnExportedFunctionOfAStrippedLibrary) {
  void* function = ::dlsym(RTLD_DEFAULT, "lfind");
  ASSERT_NE(function, nullptr);
  Dl_info info{};
  ASSERT_NE(::dladdr(function, &info), 0);
  ElfSymbols symbols;
  ASSERT_TRUE(symbols.open(info.dli_fname));
  const auto found = symbols.find(in_file(function));
  ASSERT_TRUE(found);
  EXPECT_STREQ(found->name, "lfind");
}

TEST(ElfSymbolsTest, FindsNoNameOutsideOfFunctions) {
  ElfSymbols symbols;
  ASSERT_TRUE(symbols.open("/proc/self/exe"));
  EXPECT_FALSE(symbols.find(0));
  EXPECT_FALSE(symbols.find(UINT64_MAX));
  EXPECT_FALSE(ElfSymbols().find(1));
}

TEST(ElfSymbolsTest, RefusesFilesThatAreNotElf) {
  for (const char* path : {"/no/such/file", "/dev/null", "/", "/etc/passwd", "/dev/zero"}) {
    ElfSymbols symbols;
    EXPECT_FALSE(symbols.open(path)) << path;
    EXPECT_FALSE(symbols.find(1));
  }
}

TEST(ElfSymbolsTest, ReadsWithinTheBoundsOfADamagedFile) {
  std::ifstream file("/bin/true", std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(file), {}};
  std::string path = ::testing::TempDir() + "elf_symbols_test.XXXXXX";
  ASSERT_GE(::mkstemp(path.data()), 0);
  const auto look_at = [&](const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
    ElfSymbols symbols;
    symbols.open(path.c_str());
    for (std::uint64_t address = 0; address < 0x10000; address += 0x1001) symbols.find(address);
  };
  for (std::size_t size = 1; size < whole.size(); size += 997) look_at(whole.substr(0, size));
  // The header, then the section table at the end of the file.
  for (std::size_t at = 0; at < 64; ++at) {
    for (const char byte : {'\0', '\x7F', '\xFF'}) {
      std::string damaged = whole;
      damaged[at] = byte;
      look_at(damaged);
    }
  }
  for (std::size_t back = 1; back < 2000; back += 7) {
    std::string damaged = whole;
    damaged[damaged.size() - back] = '\xFF';
    look_at(damaged);
  }
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace distrun

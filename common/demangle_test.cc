#include "common/demangle.h"

#include <exception>
#include <string>
#include <typeinfo>

#include <gtest/gtest.h>

namespace distrun {
namespace {

TEST(DemangleTest, NamesInATextBecomeThoseOfTheSource) {
  EXPECT_EQ(demangled("#0 _Z5trainPKc+0x1c (/a/worker+0x12ab)\n#1 main+0x3 (_ZN1a1bEv)\n"),
            "#0 train(char const*)+0x1c (/a/worker+0x12ab)\n#1 main+0x3 (a::b())\n");
  EXPECT_EQ(demangled("_Z5trainv.cold"), "train() [clone .cold]");
  EXPECT_EQ(demangled("_Z4loadNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEES4_"),
            "load(std::string, std::string)");
}

TEST(DemangleTest, WhatIsNoSuchNameStays) {
  for (const std::string text : {"", "_Z", "_Zx", "x_Z5trainv", "_Z5trai", "i", "a\nb\xFF"}) {
    EXPECT_EQ(demangled(text), text);
  }
}

TEST(DemangleTest, ATypesName) {
  EXPECT_EQ(demangled_type(typeid(int).name()), "int");
  EXPECT_EQ(demangled_type(typeid(std::exception).name()), "std::exception");
}

TEST(DemangleTest, ANameThatIsTooLongStays) {
  const std::string deep = "_Z1f" + std::string(1'000'000, 'P') + "i";
  EXPECT_EQ(demangled(deep), deep);
}

}  // namespace
}  // namespace distrun

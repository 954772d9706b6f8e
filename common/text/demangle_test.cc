#include "common/text/demangle.h"

#include <exception>
#include <string>
#include <string_view>
#include <typeinfo>

#include <gtest/gtest.h>

namespace distrun {
namespace {

std::string in_source(const std::string& name) {
  const std::string line = demangled_backtrace("#0 " + name + "+0x1");
  EXPECT_TRUE(line.starts_with("#0 ") && line.ends_with("+0x1")) << line;
  return line.substr(3, line.size() - 7);
}

// A type in which each level refers to the last one `times` times.
std::string growing(int levels, int times) {
  constexpr std::string_view kDigits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
  std::string name = "_Z1f1aIiE";
  for (int level = 0; level < levels; ++level) {
    name += "1aI";
    // Each level adds two parts that can be referred to: its template and itself.
    for (int i = 0; i < times; ++i) name += std::string("S") + kDigits.at(2 * level) + "_";
    name += "E";
  }
  return name;
}

TEST(DemangleTest, DemanglesNamesInABacktrace) {
  EXPECT_EQ(demangled_backtrace("#0 _Z5trainPKc+0x1c (/a/worker+0x12ab)\n#17 _ZN1a1bEv\n"),
            "#0 train(char const*)+0x1c (/a/worker+0x12ab)\n#17 a::b()\n");
  EXPECT_EQ(in_source("_Z5trainv.cold"), "train() [clone .cold]");
  EXPECT_EQ(in_source("_Z4loadNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEES4_"),
            "load(std::string, std::string)");
  EXPECT_EQ(in_source("_Z3allIJiiiEEvDpT_"), "void all<int, int, int>(int, int, int)");
  EXPECT_EQ(in_source(growing(2, 2)),
            "f(a<int>, a<a<int>, a<int> >, a<a<a<int>, a<int> >, "
            "a<a<int>, a<int> > >)");
}

TEST(DemangleTest, KeepsOtherText) {
  for (const std::string text :
       {"", "\n", "#0 _Z", "#0 _Zx\n\n", "#0 x_Z5trainv", "#0 _Z5trai+0x1", "#0 i", "a\nb\xFF"}) {
    EXPECT_EQ(demangled_backtrace(text), text);
  }
}

TEST(DemangleTest, KeepsLinesThatAreNotFrames) {
  for (const std::string text : {"_Z5trainv", " #0 _Z5trainv", "# _Z5trainv", "#0 (_Z5trainv)",
                                 "#0 main (_Z5trainv)", "undefined symbol: _Z5trainv\n"}) {
    EXPECT_EQ(demangled_backtrace(text), text);
  }
}

TEST(DemangleTest, DemanglesTypeNames) {
  EXPECT_EQ(demangled_type(typeid(int).name()), "int");
  EXPECT_EQ(demangled_type(typeid(std::exception).name()), "std::exception");
}

TEST(DemangleTest, KeepsANameThatIsTooLong) {
  const std::string deep = "_Z1f" + std::string(1'000'000, 'P') + "i";
  EXPECT_EQ(in_source(deep), deep);
}

// Demangling 24 levels would take 5 s and 550 MB.
TEST(DemangleTest, KeepsANameThatWouldExpandTooFar) {
  for (const std::string& name : {growing(16, 2), growing(4, 4), growing(2, 7)}) {
    EXPECT_EQ(in_source(name), name);
    EXPECT_EQ(demangled_type(name.c_str()), name);
  }
  // A pack expansion inside another.
  const std::string pack = "J" + std::string(10, 'i') + "E";
  const std::string packs = "_Z1fI" + pack + pack + "EvDpFvT_DpT0_E";
  EXPECT_EQ(in_source(packs), packs);
}

// The input is within the bounds, but the result, about 1 MB, is too long.
TEST(DemangleTest, KeepsANameWhoseResultIsTooLong) {
  std::string name = growing(4, 3);
  name.insert(name.find("iE"), 400, 'y');  // unsigned long long
  EXPECT_EQ(in_source(name), name);
}

}  // namespace
}  // namespace distrun

#include "evidence/report/named_backtrace.h"

#include <gtest/gtest.h>

namespace distrun {
namespace {

Frame name(const std::string& file, std::uint64_t address) {
  if (address == 0x9a806)
    return {.function = "die", .source = "/src/dies.cc", .line = 7, .module = file};
  if (address == 0x1b0) return {.function = "TestBody", .module = file};
  if (address == 0x2) return {.function = "run", .module = file};
  return {.module = file};
}

CutFrames cut(const Frame& frame) {
  if (frame.function == "TestBody") return CutFrames::kAfterThis;
  return frame.function == "run" ? CutFrames::kFromHere : CutFrames::kNo;
}

TEST(NamedBacktraceTest, NamesFunctionsAndLines) {
  EXPECT_EQ(named_backtrace("a: SIGSEGV\n"
                            "#0 _Z3dieEi+0x196 (/build/a+0x9a806)\n"
                            "#1 0x7efda04a8eec (/lib/libc.so.6+0x8aeec)\n"
                            "#2 Test::operator() (int)+0x3 (/build/a+0x9a806)\n"
                            "#3 _Z8TestBody+0x3 (/build/a+0x1b0)\n"
                            "#4 main+0x3 (/build/a+0x1b1)\n"
                            "next\n",
                            name, cut),
            "a: SIGSEGV\n"
            "#0 die (dies.cc:7)\n"
            "#1 0x7efda04a8eec (/lib/libc.so.6+0x8aeec)\n"
            "#2 die (dies.cc:7)\n"
            "#3 TestBody (a)\n"
            "next\n");
}

TEST(NamedBacktraceTest, CutsEachBacktraceSeparately) {
  EXPECT_EQ(
      named_backtrace("#0 f+0x1 (/b/a+0x9a806)\n#1 f+0x1 (/b/a+0x2)\n#2 f+0x1 (/b/a+0x9a806)\n"
                      "again\n#0 f+0x1 (/b/a+0x9a806)",
                      name, cut),
      "#0 die (dies.cc:7)\nagain\n#0 die (dies.cc:7)");
}

TEST(NamedBacktraceTest, DropsNamelessFramesThatStartAThread) {
  EXPECT_EQ(named_backtrace("#0 f+0x1 (/b/a+0x9a806)\n#1 0x1 (/lib/libstdc++.so.6+0x7)\n"
                            "#2 0x2 (/lib/libc.so.6+0x7)\n#3 0x2 (/b/a+0x2)\nnext\n",
                            name, cut),
            "#0 die (dies.cc:7)\nnext\n");
  EXPECT_EQ(named_backtrace("#0 f+0x1 (/b/a+0x9a806)\n#1 0x2 (/lib/libc.so.6+0x7)\n", name, cut),
            "#0 die (dies.cc:7)\n");
  const std::string nameless = "#0 0x2 (/lib/libc.so.6+0x7)\n";
  EXPECT_EQ(named_backtrace(nameless, name, cut), nameless);
}

TEST(NamedBacktraceTest, KeepsOtherText) {
  for (const char* text :
       {"", "\n", "#", "#1", "# 1 (a+0x1)", "#1 f (a+0xg)", "#1 f (a)", "#1f (a+0x1)",
        "#99999999999 f (a+0xfffffffffffffffffffff)", "x #1 f+0x1 (a+0x1)"}) {
    EXPECT_EQ(named_backtrace(text, name, cut), text);
  }
}

}  // namespace
}  // namespace distrun

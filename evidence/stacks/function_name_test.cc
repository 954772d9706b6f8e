#include "evidence/stacks/function_name.h"

#include <gtest/gtest.h>

namespace distrun {
namespace {

TEST(ShortFunctionNameTest, OmitsParametersAndTemplateArguments) {
  EXPECT_EQ(short_function_name("train(int, std::vector<int, std::allocator<int> >&)"), "train");
  EXPECT_EQ(short_function_name("std::vector<int> gloo::Pair<1>::read(char const*, unsigned long)"),
            "gloo::Pair::read");
  EXPECT_EQ(short_function_name("void (anonymous namespace)::ring<float>(float*) const"), "ring");
  EXPECT_EQ(short_function_name("gloo::(anonymous namespace)::ring(int)"), "gloo::ring");
  EXPECT_EQ(short_function_name("f(std::function<int (bool)> const&)"), "f");
  EXPECT_EQ(short_function_name("int* find<int>(int*)"), "find");
}

TEST(ShortFunctionNameTest, KeepsOperatorsAndLambdas) {
  EXPECT_EQ(short_function_name("Batch::operator()(int) const"), "Batch::operator()");
  EXPECT_EQ(short_function_name("bool operator< <int>(A<int> const&, A<int> const&)"),
            "operator< <int>");
  EXPECT_EQ(short_function_name("Batch::operator bool() const"), "Batch::operator bool");
  EXPECT_EQ(short_function_name("main::{lambda(int)#1}::operator()(int) const"),
            "main::{lambda}::operator()");
  EXPECT_EQ(short_function_name("operators::run(int)"), "operators::run");
}

TEST(ShortFunctionNameTest, NamesTheLambdaOfAThread) {
  EXPECT_EQ(short_function_name("std::thread::_State_impl<std::thread::_Invoker<std::tuple<"
                                "a::(anonymous namespace)::A::f(int)::{lambda(int)#2}, int> > "
                                ">::_M_run()"),
            "a::A::f::{lambda}");
  EXPECT_EQ(
      short_function_name(
          "std::thread::_State_impl<std::thread::_Invoker<std::tuple<void (*)()> > >::_M_run()"),
      "std::thread::_State_impl::_M_run");
}

TEST(ShortFunctionNameTest, OmitsVersionsAndCopiesOfSymbols) {
  EXPECT_EQ(short_function_name("clock_nanosleep@GLIBC_2.2.5"), "clock_nanosleep");
  EXPECT_EQ(short_function_name("parse.constprop.0"), "parse");
  EXPECT_EQ(short_function_name("parse(char const*) [clone .cold]"), "parse");
}

TEST(ShortFunctionNameTest, AcceptsAnyText) {
  for (const char* text : {"", "<", "((((", "a<b", "operator", "{lambda", "]]>", " "}) {
    EXPECT_EQ(short_function_name(text).empty(), *text == '\0') << text;
  }
}

}  // namespace
}  // namespace distrun

#include "evidence/stacks/python_frames.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace distrun {
namespace {

std::vector<std::string> merged(std::vector<Frame> native) {
  merge_python(native, {{.function = "train"}});
  std::vector<std::string> names;
  for (const Frame& frame : native) names.push_back(frame.function);
  return names;
}

TEST(MergePythonTest, KeepsTheCallsOfTheLastPythonFunctionIntoLibraries) {
  const std::string python = "/usr/bin/python3.14", torch = "libtorch.so";
  const Frame main{.function = "main", .module = python},
      eval{.function = "_PyEval_EvalFrameDefault", .module = python},
      call{.function = "cfunction_call", .module = python},
      add{.function = "THPVariable_add", .module = torch},
      lock{.function = "PyEval_RestoreThread", .module = python},
      wait{.function = "futex", .module = "libc.so.6"};
  using Names = std::vector<std::string>;
  EXPECT_EQ(merged({main, eval, call, wait}), (Names{"train", "futex"}));
  EXPECT_EQ(merged({main, eval, call, add, lock, wait}),
            (Names{"train", "THPVariable_add", "PyEval_RestoreThread", "futex"}));
  EXPECT_EQ(merged({main, {.function = "", .module = python}, wait}), (Names{"train", "futex"}));
  EXPECT_EQ(merged({add, wait}), (Names{"train"}));
}

}  // namespace
}  // namespace distrun

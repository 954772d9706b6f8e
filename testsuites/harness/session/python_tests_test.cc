#include "testsuites/harness/session/python_tests.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "common/os/temporary_folder.h"

namespace distrun {
namespace {

using Words = std::vector<std::string>;

std::string file_of(const Words& command) {
  const auto tests = python_tests(command);
  return tests ? tests->command[tests->file] : "error: " + tests.error().message;
}

TEST(PythonTestsTest, TheFileIsTheFirstWordThatIsNoFlagOfPython) {
  EXPECT_EQ(file_of({"python3", "a.py"}), "a.py");
  EXPECT_EQ(
      file_of({"/usr/bin/python3.11", "-uB", "-X", "dev", "-W", "error", "a.py", "-v", "b.py"}),
      "a.py");
}

TEST(PythonTestsTest, AFileAloneRunsWithPython3) {
  EXPECT_EQ(python_tests({"a.py", "-v"})->command, (Words{"python3", "a.py", "-v"}));
}

TEST(PythonTestsTest, OtherProgramsAreNotPython) {
  EXPECT_TRUE(is_python({"/usr/bin/python3.11", "a.py"}));
  EXPECT_TRUE(is_python({"./a.py"}));
  EXPECT_TRUE(is_python({"python"}));
  EXPECT_FALSE(is_python({"./python_ring", "a.py"}));
  EXPECT_FALSE(is_python({"./prog", "a.py"}));
  EXPECT_FALSE(is_python({"env", "python3", "a.py"}));
}

TEST(PythonTestsTest, ModulesAreRefused) {
  EXPECT_EQ(file_of({"python3", "-m", "tests"}),
            "error: python3 -m: give a file, such as test_mine.py");
  EXPECT_EQ(file_of({"python3", "-X", "dev"}), "error: python3: give a file, such as test_mine.py");
}

TEST(PythonTestsTest, TheHostIsWrittenAndStandsBeforeTheFile) {
  const auto folder = TemporaryFolder::make({});
  ASSERT_TRUE(folder);
  const auto command = write_python_host({{"python3", "-u", "a.py", "x"}, 2}, folder->path());
  ASSERT_TRUE(command);
  EXPECT_EQ(*command, (Words{"python3", "-u", folder->path() + "/python", "a.py", "x"}));
  EXPECT_TRUE(std::filesystem::exists(folder->path() + "/python/__main__.py"));
}

TEST(PythonTestsTest, AFolderThatCannotBeMadeIsAnError) {
  const auto command = write_python_host({{"python3", "a.py"}, 1}, "/proc/none");
  ASSERT_FALSE(command);
  EXPECT_EQ(command.error().message,
            "make the folder /proc/none/python: no such file or directory");
}

TEST(PythonTestsTest, AFileWithoutTestsCanBeAProgram) {
  EXPECT_EQ(why_no_python_tests({"python3", "-u", "check.py", "a b"}),
            "check.py contains no unittest classes; to run it as one test: distrun test -- env "
            "python3 -u check.py 'a b'");
  EXPECT_EQ(why_no_python_tests({"./check.py"}),
            "./check.py contains no unittest classes; to run it as one test: distrun test -- env "
            "python3 ./check.py");
}

}  // namespace
}  // namespace distrun

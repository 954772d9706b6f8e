#include "launcher/plan/command.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "common/test/folder.h"

namespace distrun {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class CommandTest : public ::testing::Test {
 protected:
  CommandTest() {
    environment_.set("PATH", folder_ + "/bin");
    std::filesystem::create_directory(folder_ + "/bin");
  }

  std::string make_file(const std::string& name, mode_t mode) {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path) << "#!/bin/sh\n";
    ::chmod(path.c_str(), mode);
    return path;
  }

  Result<Command> resolve(LaunchOptions options) { return resolve_command(options, environment_); }

  const testing::Folder own_;
  const std::string folder_ = own_.path();
  Environment environment_;
};

TEST_F(CommandTest, ExecutesProgramsDirectly) {
  const std::string path = make_file("worker", 0755);
  const Command command = resolve({.program = path, .arguments = {"--lr", "0.1"}}).value();
  EXPECT_EQ(command.executable, path);
  EXPECT_THAT(command.arguments, ElementsAre(path, "--lr", "0.1"));
}

TEST_F(CommandTest, LooksUpNamesOnPath) {
  const std::string path = make_file("bin/worker", 0755);
  const Command command = resolve({.program = "worker"}).value();
  EXPECT_EQ(command.executable, path);
  EXPECT_THAT(command.arguments, ElementsAre("worker"));
}

TEST_F(CommandTest, RunsScriptsAndModulesWithUnbufferedPython) {
  const std::string python = make_file("bin/python3", 0755);
  const std::string script = make_file("train.py", 0644);
  EXPECT_THAT(resolve({.program = script, .arguments = {"-x"}}).value().arguments,
              ElementsAre("python3", "-u", script, "-x"));
  EXPECT_THAT(resolve({.module = true, .program = "pkg.train"}).value().arguments,
              ElementsAre("python3", "-u", "-m", "pkg.train"));
  EXPECT_EQ(resolve({.program = script}).value().executable, python);
}

TEST_F(CommandTest, PythonExecReplacesPython) {
  const std::string python = make_file("mypython", 0755);
  const std::string script = make_file("train.py", 0644);
  environment_.set("PYTHON_EXEC", python);
  EXPECT_EQ(resolve({.program = script}).value().executable, python);
}

TEST_F(CommandTest, NoPythonExecutesAScriptItself) {
  const std::string script = make_file("train.py", 0755);
  EXPECT_EQ(resolve({.no_python = true, .program = script}).value().executable, script);
}

TEST_F(CommandTest, PythonFlagRunsAnyFileAsScript) {
  const std::string python = make_file("bin/python3", 0755);
  const std::string script = make_file("train", 0644);
  const Command command = resolve({.python = true, .program = script}).value();
  EXPECT_EQ(command.executable, python);
  EXPECT_THAT(command.arguments, ElementsAre("python3", "-u", script));
  EXPECT_EQ(resolve({.python = true, .program = "train"}).error().kind, ErrorKind::kNotFound);
}

TEST_F(CommandTest, ReportsMissingPrograms) {
  for (const std::string& program :
       {folder_ + "/none", std::string("none"), folder_ + "/none.py"}) {
    const auto command = resolve({.program = program});
    ASSERT_TRUE(command.has_error()) << program;
    EXPECT_EQ(command.error().kind, ErrorKind::kNotFound);
    EXPECT_THAT(command.error().message, HasSubstr(program));
  }
}

TEST_F(CommandTest, ReportsFilesThatAreNotExecutable) {
  make_file("bin/worker", 0644);
  for (const std::string& program : {make_file("worker", 0644), std::string("worker"), folder_}) {
    const auto command = resolve({.program = program});
    ASSERT_TRUE(command.has_error()) << program;
    EXPECT_EQ(command.error().kind, ErrorKind::kNotExecutable) << program;
  }
}

}  // namespace
}  // namespace distrun

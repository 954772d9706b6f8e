#include "launcher/hosts/remote_shell.h"

#include <filesystem>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/test/folder.h"
#include "launcher/test/run_program.h"

namespace distrun {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::ProgramOptions;
using testing::ProgramResult;
using testing::run_program;

TEST(RemoteShellTest, AddsOptionsHostAndScriptToTheUsersCommand) {
  EXPECT_THAT(ssh_command({"ssh", "-p", "2222"}, "me@a", "true"),
              ElementsAre("ssh", "-p", "2222", "-o", "BatchMode=yes", "-o", "ConnectTimeout=30",
                          "-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3", "-T",
                          "me@a", "exec sh -c 'true'"));
}

TEST(RemoteShellTest, TheScriptIsOneLineThatEveryShellQuotes) {
  const std::string script = start_script({"distrun-1", 10});
  for (const char special : {'\'', '!', '\n'}) {
    EXPECT_EQ(script.find(special), script.npos) << script;
  }
}

// Runs the script for a program of 10 bytes, as on a host whose user has that home.
class StartScriptTest : public ::testing::Test {
 protected:
  ProgramResult run(const std::string& input) {
    std::ofstream(home_.path() + "/in") << input;
    ProgramOptions options;
    options.environment.set("HOME", home_.path());
    options.environment.set("XDG_CACHE_HOME", "");
    return run_program(
        {"sh", "-c",
         "exec sh -c '" + start_script({"distrun-1", kBytes}) + "' <" + home_.path() + "/in"},
        options);
  }

  std::string folder() const { return home_.path() + "/.cache/distrun/bin"; }

  static constexpr std::uint64_t kBytes = 25;
  const std::string program_ = "#!/bin/sh\necho \"$1\"; cat\n";
  testing::Folder home_;
};

TEST_F(StartScriptTest, CopiesTheProgramOnceAndStartsIt) {
  ASSERT_EQ(program_.size(), kBytes);
  const ProgramResult first = run(program_ + "order");
  EXPECT_EQ(first.end, ProcessEnd(ExitedWith{0})) << first.err;
  EXPECT_EQ(first.out, "\n" + std::string(kCopyAsked) + "\nhost-agent\norder");
  const ProgramResult second = run("order");
  EXPECT_EQ(second.out, "host-agent\norder");
}

TEST_F(StartScriptTest, LeavesNothingIfTheConnectionIsLost) {
  const ProgramResult cut = run(program_.substr(0, 10));
  EXPECT_EQ(cut.end, ProcessEnd(ExitedWith{125}));
  EXPECT_THAT(cut.err, HasSubstr("distrun: cannot copy distrun into " + folder()));
  EXPECT_TRUE(std::filesystem::is_empty(folder()));
}

TEST_F(StartScriptTest, SaysWhyTheProgramCannotBeCopied) {
  std::ofstream(home_.path() + "/.cache") << "a file";
  const ProgramResult result = run(program_);
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{125}));
  EXPECT_THAT(result.err, HasSubstr("mkdir: "));
  EXPECT_THAT(result.err, EndsWith("distrun: cannot copy distrun into " + folder() + "\n"));
  EXPECT_THAT(result.out, IsEmpty());
}

}  // namespace
}  // namespace distrun

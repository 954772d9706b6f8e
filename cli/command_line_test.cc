#include "cli/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace distrun {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Words = std::vector<std::string>;

CommandLine split(const Words& arguments, const Environment& environment = {}) {
  auto line = split_command_line(launch_flags(), arguments, environment);
  EXPECT_FALSE(line.has_error()) << line.error().message;
  return line ? *line : CommandLine{};
}

std::string problem(const Words& arguments, const Environment& environment = {}) {
  const auto line = split_command_line(launch_flags(), arguments, environment);
  return line ? "" : line.error().message;
}

// The flag's value; "-" if it is not given.
std::string value(const CommandLine& line, std::string_view name) {
  const GivenFlag* given = line.find(name);
  return given == nullptr ? "-" : given->value;
}

TEST(CommandLineTest, TheProgramEndsTheFlags) {
  const CommandLine line = split({"--role", "a", "p.py", "--role", "b", "--", "-m", "--bogus"});
  EXPECT_EQ(value(line, "role"), "a");
  EXPECT_THAT(line.program, ElementsAre("p.py", "--role", "b", "--", "-m", "--bogus"));
  EXPECT_THAT(split({}).program, IsEmpty());
}

TEST(CommandLineTest, ADoubleDashMayStandBeforeTheProgram) {
  EXPECT_THAT(split({"--role", "a", "--", "-p", "x"}).program, ElementsAre("-p", "x"));
  EXPECT_THAT(split({"--no-python", "--", "p", "--", "x"}).program, ElementsAre("p", "--", "x"));
}

TEST(CommandLineTest, ValueFollowsAnEqualsSignOrIsTheNextWord) {
  EXPECT_EQ(value(split({"--role=a", "p"}), "role"), "a");
  EXPECT_EQ(value(split({"--role", "a", "p"}), "role"), "a");
  EXPECT_EQ(value(split({"--role=", "p"}), "role"), "");
  EXPECT_EQ(value(split({"--role", "", "p"}), "role"), "");
  EXPECT_EQ(value(split({"--rdzv-conf=a=1,b=2", "p"}), "rdzv-conf"), "a=1,b=2");
  EXPECT_EQ(value(split({"--role=-x", "p"}), "role"), "-x");
}

TEST(CommandLineTest, UnderscoresAreDashes) {
  EXPECT_EQ(value(split({"--nproc_per_node=2", "p"}), "nproc-per-node"), "2");
  EXPECT_EQ(value(split({"--max_restarts", "3", "p"}), "max-restarts"), "3");
}

TEST(CommandLineTest, LetterTakesItsValueInOneWordOrTwo) {
  for (const Words& words : {Words{"-r3", "p"}, {"-r", "3", "p"}, {"-r=3", "p"}}) {
    EXPECT_EQ(value(split(words), "redirects"), "3");
    EXPECT_THAT(split(words).program, ElementsAre("p"));
  }
  const CommandLine both = split({"-mr3", "pkg.train", "x"});
  EXPECT_EQ(value(both, "module"), "");
  EXPECT_EQ(value(both, "redirects"), "3");
  EXPECT_THAT(both.program, ElementsAre("pkg.train", "x"));
}

TEST(CommandLineTest, ModuleMayBeInOneWordWithItsFlag) {
  for (const std::string module : {"pkg.train", "train", "run"}) {
    const CommandLine line = split({"-m" + module, "--lr", "1"});
    EXPECT_NE(line.find("module"), nullptr);
    EXPECT_THAT(line.program, ElementsAre(module, "--lr", "1"));
  }
}

TEST(CommandLineTest, UniquePrefixOfANameIsEnough) {
  EXPECT_EQ(value(split({"--nproc", "2", "p"}), "nproc-per-node"), "2");
  EXPECT_EQ(value(split({"--rdzv_e=h:1", "p"}), "rdzv-endpoint"), "h:1");
  EXPECT_EQ(problem({"--rdzv", "x", "p"}),
            "--rdzv is ambiguous: --rdzv-endpoint or --rdzv-conf or --rdzv-id or --rdzv-backend");
}

TEST(CommandLineTest, OurOwnFlagsDoNotMakeTorchrunsAmbiguous) {
  const std::vector<LaunchFlag> flags = {
      {.name = "event-log-handler", .value = "NAME"},
      {.name = "events", .value = "FILE", .worth = FlagWorth::kOwn},
      {.name = "timeout", .value = "SECONDS", .worth = FlagWorth::kOwn},
  };
  const auto found = [&](const std::string& word) {
    const auto line = split_command_line(flags, {word, "p"}, {});
    return line ? line->flags.begin()->first : line.error().message;
  };
  EXPECT_EQ(found("--event=x"), "event-log-handler");
  EXPECT_EQ(found("--events=x"), "events");
  EXPECT_EQ(found("--time=x"), "timeout");
}

TEST(CommandLineTest, TheLastValueCounts) {
  EXPECT_EQ(value(split({"--role=a", "--role", "b", "p"}), "role"), "b");
}

TEST(CommandLineTest, SuggestsTheFlagThatWasMeant) {
  EXPECT_EQ(problem({"--bogus", "p"}), "unknown flag --bogus");
  EXPECT_EQ(problem({"--nproc_per_nodes=2", "p"}),
            "unknown flag --nproc_per_nodes: did you mean --nproc-per-node?");
  EXPECT_EQ(problem({"--max-restrats", "2", "p"}),
            "unknown flag --max-restrats: did you mean --max-restarts?");
  EXPECT_EQ(problem({"-nproc", "2", "p"}), "unknown flag -nproc: did you mean --nproc-per-node?");
  EXPECT_EQ(problem({"-x", "p"}), "unknown flag -x");
  EXPECT_EQ(problem({"-np", "2", "p"}), "unknown flag -np: did you mean --nproc-per-node?");
  EXPECT_EQ(problem({"-N", "2", "p"}), "unknown flag -N: did you mean --nnodes?");
}

TEST(CommandLineTest, MissingOrSuperfluousValueIsAnError) {
  EXPECT_THAT(problem({"--role"}), HasSubstr("--role: needs a value"));
  EXPECT_THAT(problem({"--role", "--standalone", "p"}), HasSubstr("--role: needs a value"));
  EXPECT_THAT(problem({"--role", "--", "p"}), HasSubstr("--role: needs a value"));
  EXPECT_EQ(problem({"--no-python=1", "p"}), "--no-python: takes no value");
}

TEST(CommandLineTest, NumbersBelowZeroAndDashesAreValues) {
  EXPECT_EQ(value(split({"--max-restarts", "-1", "p"}), "max-restarts"), "-1");
  EXPECT_EQ(value(split({"--role", "-", "p"}), "role"), "-");
  EXPECT_EQ(value(split({"--role", "-a b", "p"}), "role"), "-a b");
}

TEST(CommandLineTest, VariableGivesTheDefault) {
  Environment environment;
  environment.set("PET_NPROC_PER_NODE", "4");
  environment.set("PET_ROLE", "");
  environment.set("PET_HELP", "1");
  environment.set("PET_LOGS_SPECS", "x");
  environment.set("PET_NUMA_BINDING", "node");
  const CommandLine line = split({"p"}, environment);
  EXPECT_EQ(value(line, "nproc-per-node"), "4");
  EXPECT_EQ(line.find("nproc-per-node")->said, "PET_NPROC_PER_NODE");
  EXPECT_EQ(line.flags.size(), 1u) << "an empty one is none, and some flags have none";
  EXPECT_EQ(value(split({"--nproc-per-node=2", "p"}, environment), "nproc-per-node"), "2");
  EXPECT_EQ(split({"--nproc-per=2", "p"}, environment).find("nproc-per-node")->said,
            "--nproc-per-node");
}

TEST(CommandLineTest, VariableOfASwitchIsANumber) {
  Environment environment;
  environment.set("PET_STANDALONE", "1");
  environment.set("PET_NO_PYTHON", "0");
  EXPECT_NE(split({"p"}, environment).find("standalone"), nullptr);
  EXPECT_EQ(split({"p"}, environment).find("no-python"), nullptr);
  EXPECT_NE(split({"--no-python", "p"}, environment).find("no-python"), nullptr);
  environment.set("PET_NO_PYTHON", "true");
  EXPECT_EQ(problem({"p"}, environment), "PET_NO_PYTHON: 'true' is neither 0 nor 1");
}

}  // namespace
}  // namespace distrun

#include "evidence/nccl/ras_report.h"

#include <string>
#include <string_view>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/text/valid_utf8.h"

namespace distrun {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using namespace std::string_view_literals;

constexpr std::string_view kEndedEarly = "RAS has ended its report early";

// An answer about one communicator of four ranks, and one of two.
std::string answer(std::string_view errors, std::string_view warnings) {
  return "SERVER PROTOCOL 2\n"
         "OK\n"
         "NCCL version 2.28.3 compiled with CUDA 12.9\n"
         "CUDA runtime version 12090, driver version 12090\n"
         "\n"
         "Job summary\n"
         "===========\n"
         "\n"
         "  Nodes  Processes         GPUs  Processes     GPUs\n"
         "(total)   per node  per process    (total)  (total)\n"
         "      1          4            1          4        4\n"
         "\n"
         "Communicators... (0.00s)\n"
         "=============\n"
         "\n"
         "Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors\n"
         "    #  in group  per comm  per node  per comm  in group\n"
         "    0         1         1         4         4         4   RUNNING      OK\n"
         "    1         2         1         2         2         4   RUNNING      OK\n"
         "\n"
         "Errors\n"
         "======\n"
         "\n" +
         std::string(errors) +
         "Warnings\n"
         "========\n"
         "\n" +
         std::string(warnings);
}

// Ranks 0 to 3 of the run are processes 100 to 103.
RasNames four_ranks() {
  return {.ranks = {{100, 0}, {101, 1}, {102, 2}, {103, 3}}, .world_size = 4};
}

std::string line(std::string_view errors, std::string_view warnings = "") {
  return ras_line(answer(errors, warnings), four_ranks());
}

const std::string kJobLacks102 =
    "INCOMPLETE\n"
    "  Missing communicator data from 1 job process\n"
    "  Process 102 on node 10.0.0.1 managing GPU 2\n"
    "\n";

TEST(RasReportTest, AHealthyJobHasNoLine) { EXPECT_EQ(line(""), ""); }

TEST(RasReportTest, NamesTheRankWhoseProcessDoesNotAnswer) {
  EXPECT_EQ(line(kJobLacks102 + "#0-0 (cf264af53edbe986) INCOMPLETE\n"
                                "  Missing communicator data from 1 rank\n"
                                "  Rank 2 -- GPU 2 managed by process 102 on node 10.0.0.1\n"
                                "\n",
                 "TIMEOUT\n"
                 "  Encountered 2 communication timeouts while gathering communicator data\n\n"),
            "communicator of 4 ranks (cf264af53edbe986): missing communicator data from 1 rank: "
            "rank 2");
}

// RAS knows nothing of a communicator whose members are all silent.
TEST(RasReportTest, NamesSilentProcessesThatNoCommunicatorNames) {
  const std::string job =
      "INCOMPLETE\n"
      "  Missing communicator data from 2 job processes\n"
      "  Process 102 on node 10.0.0.1 managing GPU 2\n"
      "  Process 4711 on node 10.0.0.2 managing GPU 0\n"
      "\n";
  const std::string communicator =
      "#0-0 (cf264af53edbe986) INCOMPLETE\n"
      "  Missing communicator data from 1 rank\n"
      "  Rank 2 -- GPU 2 managed by process 102 on node 10.0.0.1\n"
      "\n";
  const std::string_view of_communicator =
      "communicator of 4 ranks (cf264af53edbe986): missing communicator data from 1 rank: rank 2";
  EXPECT_EQ(line(job + communicator),
            "missing communicator data from 2 job processes: rank 2, process 4711 on 10.0.0.2; " +
                std::string(of_communicator));
  const std::string other_communicator =
      "#1-1 (cf264af53edbe987) INCOMPLETE\n"
      "  Missing communicator data from 1 rank\n"
      "  Rank 0 -- GPU 0 managed by process 4711 on node 10.0.0.2\n";
  EXPECT_EQ(line(job + communicator + other_communicator),
            std::string(of_communicator) +
                "; communicator of 2 ranks (cf264af53edbe987): missing communicator data from 1 "
                "rank: rank 0 of the communicator (process 4711 on 10.0.0.2)");
  // Without its processes, too.
  EXPECT_EQ(line("INCOMPLETE\n  Missing communicator data from 9 job processes\n" + communicator),
            "missing communicator data from 9 job processes; " + std::string(of_communicator));
}

TEST(RasReportTest, TheJobDoesNotRepeatRanksOfVersionsBefore226) {
  EXPECT_EQ(line(kJobLacks102 + "#0-0 (cf264af53edbe986) INCOMPLETE\n"
                                "  Missing communicator data from 1 rank\n"
                                "  The missing rank: 2\n"
                                "\n"),
            "communicator of 4 ranks (cf264af53edbe986): missing communicator data from 1 rank: "
            "rank 2");
}

TEST(RasReportTest, NamesTheMissingRanksOfVersionsBefore226) {
  EXPECT_EQ(line("#0-0 (cf264af53edbe986) INCOMPLETE\n"
                 "  Missing communicator data from 2 ranks\n"
                 "  The missing ranks: 1,3\n"
                 "\n"),
            "communicator of 4 ranks (cf264af53edbe986): missing communicator data from 2 ranks: "
            "ranks 1, 3");
}

TEST(RasReportTest, ATimeoutWithoutMissingRanksIsShown) {
  EXPECT_EQ(line("",
                 "TIMEOUT\n"
                 "  Encountered 1 communication timeout while gathering communicator data\n\n"),
            "encountered 1 communication timeout while gathering communicator data");
}

TEST(RasReportTest, NamesDeadProcessesByTheirRanks) {
  const std::string dead =
      "DEAD\n"
      "  2 job processes are considered dead (unreachable via the RAS network)\n"
      "  Process 103 on node 10.0.0.1 managing GPUs 2,3\n"
      "  Process 4711 on node 10.0.0.2 managing GPU 0 (NVML 4)\n"
      "\n";
  EXPECT_EQ(line(dead),
            "2 job processes are considered dead (unreachable via the RAS network): rank 3, "
            "process 4711 on 10.0.0.2");
  std::string many = "DEAD\n  7 job processes are considered dead\n";
  for (int i = 1; i <= 7; ++i) many += fmt::format("  Process {} on node a managing GPU 0\n", i);
  EXPECT_EQ(line(many),
            "7 job processes are considered dead: process 1 on a, process 2 on a, process 3 on a, "
            "process 4 on a, 3 more processes");
}

TEST(RasReportTest, NamesRanksWithAsynchronousErrors) {
  EXPECT_EQ(line("#0-0 (00c64af53edbe986) ERROR\n"
                 "  Asynchronous errors on 3 ranks\n"
                 "  2 ranks reported Remote process error\n"
                 "  Rank 0 -- GPU 0 managed by process 100 on node 10.0.0.1\n"
                 "  Rank 3 -- GPU 3 managed by process 103 on node 10.0.0.1\n"
                 "  Rank 1 reported Unhandled CUDA error -- GPU 1 managed by process 101 on node "
                 "10.0.0.1\n"
                 "\n"),
            "communicator of 4 ranks (00c64af53edbe986): asynchronous errors on 3 ranks: "
            "ranks 0, 3 reported Remote process error, rank 1 reported Unhandled CUDA error");
}

TEST(RasReportTest, NamesTheRankThatIsBehind) {
  EXPECT_EQ(line("",
                 "#0-0 (cf264af53edbe986) MISMATCH\n"
                 "  Communicator ranks have different AllReduce operation counts\n"
                 "  3 ranks have launched up to operation 12\n"
                 "  Rank 2 has launched up to operation 11 -- GPU 2 managed by process 102 on "
                 "node 10.0.0.1\n"
                 "\n"
                 "  Communicator ranks have different Broadcast operation counts\n"
                 "  3 ranks have launched up to operation 1\n"
                 "  Rank 1 has not launched any operations -- GPU 1 managed by process 101 on "
                 "node 10.0.0.1\n"
                 "\n"),
            "communicator of 4 ranks (cf264af53edbe986): different AllReduce operation counts: "
            "3 ranks have launched up to operation 12, rank 2 has launched up to operation 11; "
            "different Broadcast operation counts: 3 ranks have launched up to operation 1, "
            "rank 1 has not launched any operations");
}

TEST(RasReportTest, NamesTheGpuIfProcessesHaveSeveral) {
  const std::string found =
      answer("",
             "#0-0 (cf264af53edbe986) MISMATCH\n"
             "  Communicator ranks have different AllReduce operation counts\n"
             "  Rank 0 has launched up to operation 12 -- GPU 0 managed by "
             "process 100 on node 10.0.0.1\n"
             "  Rank 1 has launched up to operation 11 -- GPU 1 managed by "
             "process 100 on node 10.0.0.1\n");
  EXPECT_EQ(ras_line(found, {.ranks = {{100, 0}, {101, 1}}, .world_size = 2}),
            "communicator of 4 ranks (cf264af53edbe986): different AllReduce operation counts: "
            "rank 0 (GPU 0) has launched up to operation 12, rank 0 (GPU 1) has launched up to "
            "operation 11");
}

TEST(RasReportTest, NamesRanksInAnotherState) {
  EXPECT_EQ(line("",
                 "#0-0 (cf264af53edbe986) MISMATCH\n"
                 "  Communicator ranks have different status\n"
                 "  2 ranks have status RUNNING\n"
                 "  Rank 3 has status ABORT -- GPU 3 managed by process 103 on node 10.0.0.1\n"
                 "  Rank 0 has status NOCOMM -- [process information not found]\n"),
            "communicator of 4 ranks (cf264af53edbe986): different status: "
            "2 ranks have status RUNNING, rank 3 has status ABORT, rank 0 has status NOCOMM");
}

// A communicator has its own numbers of ranks: here, those of ranks 2 and 3 of the run.
TEST(RasReportTest, RanksAreThoseOfTheRun) {
  const std::string_view errors =
      "#1-1 (cf264af53edbe986) INCOMPLETE\n"
      "  Missing communicator data from 1 rank\n"
      "  Rank 1 -- GPU 3 managed by process 103 on node 10.0.0.1\n";
  EXPECT_EQ(line(errors),
            "communicator of 2 ranks (cf264af53edbe986): missing communicator data from 1 rank: "
            "rank 3");
  EXPECT_EQ(ras_line(answer(errors, ""), {.ranks = {}, .world_size = 4}),
            "communicator of 2 ranks (cf264af53edbe986): missing communicator data from 1 rank: "
            "rank 1 of the communicator (process 103 on 10.0.0.1)");
  EXPECT_EQ(ras_line(answer(errors, ""), {.ranks = {}, .world_size = 2}),
            "communicator of 2 ranks (cf264af53edbe986): missing communicator data from 1 rank: "
            "rank 1");
}

TEST(RasReportTest, PassesOnWhatItDoesNotKnow) {
  EXPECT_EQ(line("#0-0 (cf264af53edbe986) STUCK\n"
                 "  No progress for 60 seconds\n"
                 "HOT\n"
                 "  GPU 3 throttles\n"
                 "#new\n"
                 "  Rank none\n"
                 "  Process none\n"
                 "  The end: none\n"
                 "#0-0 (cf264af53edbe986) QUIET\n"),
            "communicator of 4 ranks (cf264af53edbe986): STUCK: no progress for 60 seconds; "
            "HOT: GPU 3 throttles; "
            "#new: rank none; process none; the end: none; "
            "communicator of 4 ranks (cf264af53edbe986): QUIET");
}

TEST(RasReportTest, SaysThatAReportIsNotWhole) {
  const std::string whole = answer("", "");
  EXPECT_EQ(ras_line(whole.substr(0, whole.find("(0.00s)")), four_ranks()), kEndedEarly);
  // At any byte.
  for (std::size_t size = kEndedEarly.size(); size + 1 < whole.size(); ++size) {
    ASSERT_EQ(ras_line(whole.substr(0, size), four_ranks()), kEndedEarly) << size;
  }
}

TEST(RasReportTest, SaysWhyAReportIsNotWhole) {
  const std::string whole = answer("HOT\n", "");
  const std::string begin = whole.substr(0, whole.find("HOT"));
  EXPECT_EQ(ras_line(begin, four_ranks(), RasEnd::kWaiting),
            "RAS had not finished its report when distrun stopped waiting, perhaps because a "
            "process does not answer");
  constexpr std::string_view kTooLong =
      "the report of RAS is too long: distrun has read its beginning";
  EXPECT_EQ(ras_line(begin, four_ranks(), RasEnd::kCut), kTooLong);
  EXPECT_EQ(ras_line(whole, four_ranks(), RasEnd::kCut), "HOT; " + std::string(kTooLong));
  EXPECT_EQ(ras_line(whole, four_ranks(), RasEnd::kWaiting), "HOT");
}

TEST(RasReportTest, AfterARefusalNoReportIsMissing) {
  for (const RasEnd end : {RasEnd::kClosed, RasEnd::kWaiting}) {
    EXPECT_EQ(
        ras_line("SERVER PROTOCOL 9\nERROR: Unknown command VERBOSE STATUS\n", four_ranks(), end),
        "ERROR: Unknown command VERBOSE STATUS");
  }
}

TEST(RasReportTest, OtherServersHaveNoLine) {
  EXPECT_EQ(ras_line("", four_ranks()), "");
  EXPECT_EQ(ras_line("HTTP/1.1 400 Bad Request\r\n\r\n", four_ranks()), "");
  EXPECT_TRUE(may_be_of_ras(""));
  EXPECT_TRUE(may_be_of_ras("SERVER"));
  EXPECT_TRUE(may_be_of_ras("SERVER PROTOCOL 2\nOK\n"));
  EXPECT_FALSE(may_be_of_ras("SERVICE"));
}

TEST(RasReportTest, CutsLongTexts) {
  std::string errors;
  for (int i = 0; i < 1000; ++i)
    errors += "\xC3\xA9" + std::string(i % 2 + 5000, 'x') + "\xC3\xA9\n";
  const std::string text = line(errors);
  EXPECT_LT(text.size(), std::size_t{8 * 420});
  EXPECT_TRUE(text.ends_with("x…; 992 more")) << text;
  std::string accents = "a";
  for (int i = 0; i < 300; ++i) accents += "\xC3\xA9";
  const std::string cut = line(accents + "\n");
  EXPECT_TRUE(cut.ends_with("\xC3\xA9…")) << cut;
  EXPECT_EQ(valid_utf8(cut), cut);
  EXPECT_THAT(line("DEAD\n  a\n" +
                   [] {
                     std::string lines;
                     for (int i = 0; i < 20; ++i) lines += "  Rank 1 has status S\n";
                     return lines;
                   }()),
              HasSubstr("rank 1 of the communicator has status S, 12 more"));
}

// A time that grows with the square of the size would take minutes.
TEST(RasReportTest, AReportOfTwoMebibytesIsRead) {
  constexpr std::size_t kSize = std::size_t{2} << 20;
  for (const std::string_view repeated :
       {"TIMEOUT\n", "INCOMPLETE\n", "TIMEOUT\nINCOMPLETE\n", "DEAD\n", "#\n", "#0-0 (a) DEAD\n",
        "#0-0 (a) INCOMPLETE\n  Rank 1 -- process 1 on node a\n", "  Process 1 on node a\n",
        "INCOMPLETE\n  Process 1 on node a\n", "  Rank 1 -- \n", "  Rank 1 has x -- \n",
        "  5 ranks x\n", "  The missing ranks: 1,2\n", "  a\n", "===\n", "\n"}) {
    std::string many;
    while (many.size() < kSize) many += repeated;
    EXPECT_LT(line(many, many).size(), std::size_t{5000}) << repeated;
  }
}

TEST(RasReportTest, EscapesControlCharacters) {
  EXPECT_EQ(line("red \x1b[31m\xff\n"), "red \\x1b[31m\xEF\xBF\xBD");
  const std::string null("a\0b\n", 4);
  EXPECT_EQ(line(null), "a\\x00b");
}

TEST(RasReportTest, OddLinesDoNoHarm) {
  for (const std::string_view odd :
       {"Rank\n", "  Rank\n", "  Rank 1\n", "  Rank 99999999999999 -- \n", "#\n", "#-(\n",
        "  Process 1\n", "  The : \n", "  The missing ranks: ,\n", "  5 ranks \n", "  ranks \n",
        "===\n===\n", "Errors\n===\nErrors\n===\n", "  1 ranks x\n  Rank 0 -- process\n"}) {
    line(odd, odd);
    ras_line("SERVER PROTOCOL 2\n" + std::string(odd), four_ranks());
  }
}

TEST(RasPortTest, IsThatOfTheVariable) {
  EXPECT_EQ(ras_port("PATH=/bin\0HOME=/\0"sv), 28028);
  EXPECT_EQ(ras_port("PATH=/bin\0NCCL_RAS_ADDR=localhost:4711\0HOME=/\0"sv), 4711);
  EXPECT_EQ(ras_port("NCCL_RAS_ADDR=[::1]:4712"), 4712);
  EXPECT_EQ(ras_port("XNCCL_RAS_ADDR=localhost:4711"), 28028);
}

// As for getenv().
TEST(RasPortTest, OfTwoVariablesTheFirstCounts) {
  EXPECT_EQ(ras_port("NCCL_RAS_ADDR=a:4711\0NCCL_RAS_ADDR=a:4712\0"sv), 4711);
  EXPECT_EQ(ras_port("NCCL_RAS_ENABLE=1\0NCCL_RAS_ENABLE=0\0"sv), 28028);
}

TEST(RasPortTest, MayBeUnknown) {
  EXPECT_EQ(ras_port(""), std::nullopt) << "variables that cannot be read";
  EXPECT_EQ(ras_port("NCCL_RAS_ADDR="), std::nullopt);
  EXPECT_EQ(ras_port("NCCL_RAS_ADDR=localhost:"), std::nullopt);
  EXPECT_EQ(ras_port("NCCL_RAS_ADDR=localhost:0"), std::nullopt);
  EXPECT_EQ(ras_port("NCCL_RAS_ADDR=localhost:70000"), std::nullopt);
  for (const char* off : {"0", "00", "0x0", "2", "-1", "no"}) {
    EXPECT_EQ(ras_port(std::string("NCCL_RAS_ENABLE=") + off), std::nullopt) << off;
  }
  for (const char* on : {"1", "0x1", " 1", ""}) {
    EXPECT_EQ(ras_port(std::string("NCCL_RAS_ENABLE=") + on), 28028) << on;
  }
}

}  // namespace
}  // namespace distrun

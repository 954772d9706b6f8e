#include "evidence/report/where_ranks_are.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace distrun {
namespace {

std::vector<Frame> python(const std::vector<std::string>& functions) {
  std::vector<Frame> frames;
  for (const std::string& function : functions) {
    frames.push_back({.function = function, .source = "train.py", .line = 1});
  }
  return frames;
}

ThreadStack thread(pid_t tid, std::vector<Frame> frames) {
  return {.tid = tid, .name = "python3", .frames = std::move(frames)};
}

// The frames are those of the worker's main thread.
ProcessStacks process(pid_t pid, std::vector<Frame> frames, char state = 'S') {
  return {
      .pid = pid, .name = "python3", .state = state, .threads = {thread(pid, std::move(frames))}};
}

TEST(WhereRanksAreTest, LineStartsWithTheFewestRanks) {
  const auto where = where_ranks_are({{0, {process(10, python({"main", "step"}))}},
                                      {1, {process(11, python({"main", "load"}))}},
                                      {2, {process(12, python({"main", "step"}))}}});
  EXPECT_EQ(where.line, "rank 1 in load (train.py:1); ranks 0, 2 in step (train.py:1)");
  EXPECT_EQ(where.stacks,
            "  main (train.py:1)\n"
            "  rank 1\n"
            "    load (train.py:1)\n"
            "  ranks 0, 2\n"
            "    step (train.py:1)\n");
}

TEST(WhereRanksAreTest, RanksAtOnePlaceAreNamedOnce) {
  const auto where = where_ranks_are(
      {{0, {process(10, python({"main", "load"}))}}, {1, {process(11, python({"main", "load"}))}}});
  EXPECT_EQ(where.line, "ranks 0, 1 in load (train.py:1)");
}

TEST(WhereRanksAreTest, ShowsSourcesRelativeToTheFolder) {
  const Frame frame{.function = "load", .source = "/home/me/sub/train.py", .line = 1};
  EXPECT_EQ(where_ranks_are({{0, {process(10, {frame})}}}, "/home/me").line,
            "rank 0 in load (sub/train.py:1)");
  EXPECT_EQ(where_ranks_are({{0, {process(10, {frame})}}}, "/home/m").line,
            "rank 0 in load (/home/me/sub/train.py:1)");
}

// A Python stack that ends in a collective.
std::vector<Frame> all_reduce_in(const std::vector<std::string>& functions) {
  std::vector<Frame> frames = python(functions);
  frames.push_back({.function = "all_reduce",
                    .source = "/opt/lib/python3.11/site-packages/torch/distributed_c10d.py",
                    .line = 7});
  frames.push_back({.function = "c10d::Work::wait", .module = "/opt/libtorch_cpu.so"});
  return frames;
}

TEST(WhereRanksAreTest, RanksThatWaitForOthersComeLast) {
  const auto where = where_ranks_are({{0, {process(10, all_reduce_in({"main", "step"}))}},
                                      {1, {process(11, python({"main", "load"}))}},
                                      {2, {process(12, python({"main", "load"}))}}});
  EXPECT_EQ(where.line,
            "ranks 1, 2 in load (train.py:1); "
            "rank 0 waits in all_reduce, called by step (train.py:1)");
}

// A worker whose main thread waits for another thread.
ProcessStacks joining(pid_t pid, std::vector<std::vector<Frame>> others) {
  std::vector<Frame> frames = python({"main"});
  frames.push_back(
      {.function = "Thread.join", .source = "/lib/python3.11/threading.py", .line = 9});
  frames.push_back({.function = "pthread_cond_wait", .module = "/lib/libc.so.6"});
  ProcessStacks stacks = process(pid, std::move(frames));
  for (auto& other : others) stacks.threads.push_back(thread(++pid, std::move(other)));
  return stacks;
}

TEST(WhereRanksAreTest, AThreadSpeaksForAMainThreadThatOnlyWaitsForIt) {
  const std::vector<Frame> of_library = {
      {.function = "c10d::ProcessGroupGloo::runLoop", .module = "/opt/libtorch_cpu.so"},
      {.function = "gloo::allreduce", .module = "/opt/libtorch_cpu.so"}};
  const std::vector<Frame> of_another = {{.function = "work", .module = "/opt/libother.so"}};
  const auto where = where_ranks_are(
      {{0, {joining(10, {python({"run", "watch"}), all_reduce_in({"run", "step"})})}},
       {1, {joining(20, {of_library, all_reduce_in({"run", "step"})})}},
       {2, {joining(30, {of_another, python({"run", "load"})})}}});
  EXPECT_EQ(where.line,
            "rank 2 in load (train.py:1); "
            "ranks 0, 1 wait in all_reduce, called by step (train.py:1)");
}

TEST(WhereRanksAreTest, NoThreadSpeaksForAMainThreadThatMayWaitForAnyOfThem) {
  const auto where =
      where_ranks_are({{0, {joining(10, {python({"heartbeat"}), python({"train"})})}}});
  EXPECT_EQ(where.line, "rank 0 in Thread.join, called by main (train.py:1)");
}

TEST(WhereRanksAreTest, AMainThreadThatWorksSpeaksForItself) {
  ProcessStacks works = process(10, python({"main", "load"}));
  works.threads.push_back(thread(11, all_reduce_in({"run", "step"})));
  EXPECT_EQ(where_ranks_are({{0, {works}}}).line, "rank 0 in load (train.py:1)");
  EXPECT_EQ(where_ranks_are({{0, {joining(10, {})}}}).line,
            "rank 0 in Thread.join, called by main (train.py:1)");
}

TEST(WhereRanksAreTest, NamesTheKeysThatRanksWaitFor) {
  auto keys = python({"main", "meet"});
  keys.push_back({.function = "c10d::TCPStore::get", .module = "/opt/libtorch_cpu.so"});
  const auto where = where_ranks_are({{0, {process(10, all_reduce_in({"main", "step"}))}},
                                      {1, {process(11, keys)}, "for ready/3"},
                                      {2, {process(12, keys)}, "for ready/3"}});
  EXPECT_EQ(where.line,
            "ranks 1, 2 wait for ready/3 in meet (train.py:1); "
            "rank 0 waits in all_reduce, called by step (train.py:1)");
  EXPECT_EQ(
      where_ranks_are({{1, {process(11, keys)}, "for a"}, {2, {process(12, keys)}, "for b"}}).line,
      "ranks 1, 2 wait for the store in meet (train.py:1)");
  // Another thread waits.
  EXPECT_EQ(where_ranks_are({{1, {process(11, python({"main", "load"}))}, "for stop"}}).line,
            "rank 1 in load (train.py:1)");
}

TEST(WhereRanksAreTest, SeparatesRanksInOneCollectiveWithDifferentCalls) {
  auto frames = all_reduce_in({"main", "evaluate", "step"});
  const auto where = where_ranks_are({{0, {process(10, all_reduce_in({"main", "step"}))}},
                                      {1, {process(11, all_reduce_in({"main", "step"}))}},
                                      {2, {process(12, std::move(frames))}}});
  EXPECT_EQ(where.line,
            "rank 2 waits in all_reduce, called by step (train.py:1), "
            "called by evaluate (train.py:1); "
            "ranks 0, 1 wait in all_reduce, called by step (train.py:1), "
            "called by main (train.py:1)");
}

TEST(WhereRanksAreTest, ManyPlacesAreCounted) {
  std::vector<RankStacks> ranks;
  for (int i = 0; i < 6; ++i)
    ranks.push_back({i, {process(10 + i, python({std::string(1, static_cast<char>('a' + i))}))}});
  EXPECT_EQ(where_ranks_are(ranks).line,
            "rank 0 in a (train.py:1); rank 1 in b (train.py:1); rank 2 in c (train.py:1); "
            "rank 3 in d (train.py:1); 2 more groups");
}

TEST(WhereRanksAreTest, StoppedRanksComeBeforeTheirPlaces) {
  const auto where = where_ranks_are({{0, {process(10, python({"main", "step"}))}},
                                      {1, {process(11, python({"main"}), 'T')}},
                                      {2, {process(12, {}, 'Z')}}});
  EXPECT_EQ(where.line, "rank 2 ended; rank 1 stopped (SIGSTOP); rank 0 in step (train.py:1)");
}

TEST(WhereRanksAreTest, ShowsBusyThreadsOfRanks) {
  ProcessStacks one = process(10, python({"main"}));
  one.threads.push_back(thread(20, python({"load"})));
  one.threads.push_back(thread(21, {{.function = "gomp_barrier", .module = "libgomp.so"}}));
  const auto where = where_ranks_are({{0, {one}}, {1, {process(11, python({"main"}))}}});
  EXPECT_EQ(where.stacks,
            "  main (train.py:1)\n"
            "  other threads of rank 0\n"
            "    load (train.py:1)\n");
}

TEST(WhereRanksAreTest, ShowsProcessesThatWorkersStarted) {
  ProcessStacks loader = process(20, python({"fetch"}));
  loader.name = "pt_data_worker";
  const auto where = where_ranks_are({{0, {process(10, python({"main"})), loader}}});
  EXPECT_EQ(where.line, "rank 0 in main (train.py:1)");
  EXPECT_EQ(where.stacks,
            "  main (train.py:1)\n"
            "  pt_data_worker, started by rank 0\n"
            "    fetch (train.py:1)\n");
}

TEST(WhereRanksAreTest, WaitingShellIsNotTheRank) {
  ProcessStacks shell = process(10, {{.function = "wait4", .module = "/usr/lib/libc.so.6"}});
  shell.name = "sh";
  const auto where = where_ranks_are({{0, {shell, process(20, python({"load"}))}}});
  EXPECT_EQ(where.line, "rank 0 in load (train.py:1)");
  EXPECT_EQ(where.stacks, "  load (train.py:1)\n");
}

TEST(WhereRanksAreTest, ShowsARankThatWaitsForItsChild) {
  const auto where =
      where_ranks_are({{0, {process(10, python({"run"})), process(20, python({"load"}))}}});
  EXPECT_EQ(where.line, "rank 0 in run (train.py:1)");
}

TEST(WhereRanksAreTest, RankBrieflyInTheKernelHasAPlace) {
  EXPECT_EQ(where_ranks_are({{0, {process(10, python({"run"}), 'D')}}}).line,
            "rank 0 in run (train.py:1)");
}

TEST(WhereRanksAreTest, EscapesNamesForTheTerminal) {
  ProcessStacks child = process(20, python({"x\n"}));
  child.name = "\x1b[31m";
  const auto where = where_ranks_are({{0, {process(10, python({"main"})), child}}});
  EXPECT_EQ(where.stacks,
            "  main (train.py:1)\n"
            "  \\x1b[31m, started by rank 0\n"
            "    x\\x0a (train.py:1)\n");
}

TEST(WhereRanksAreTest, ReportsWhyAStackIsMissing) {
  const ProcessStacks forbidden{
      .pid = 10, .name = "a", .state = 'S', .problem = "ptrace is not permitted here"};
  ProcessStacks stuck = process(11, {}, 'D');
  stuck.threads[0].problem = "it waits in the kernel";
  const auto where = where_ranks_are({{0, {forbidden}}, {1, {forbidden}}, {2, {stuck}}});
  EXPECT_EQ(where.line, "rank 2 waiting in the kernel (D)");
  EXPECT_EQ(where.stacks,
            "  rank 2: no stack: it waits in the kernel\n"
            "  ranks 0, 1: no stack: ptrace is not permitted here\n");
}

TEST(WhereRanksAreTest, WithoutRanksTheTextIsEmpty) {
  EXPECT_EQ(where_ranks_are({}).line, "");
  EXPECT_EQ(where_ranks_are({}).stacks, "");
}

}  // namespace
}  // namespace distrun

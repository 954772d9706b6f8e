#include "launcher/run/flight_recorders.h"

#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/test/folder.h"

namespace distrun {
namespace {

using namespace std::chrono_literals;
using namespace std::string_literals;

std::string pickled(const std::string& text) {
  std::string bytes = "X";
  const auto size = static_cast<std::uint32_t>(text.size());
  bytes.append(reinterpret_cast<const char*>(&size), sizeof size);
  return bytes + text;
}

std::string pickled_number(std::int64_t number) {
  return "\x8a\x08" + std::string(reinterpret_cast<const char*>(&number), sizeof number);
}

// A dump in which the rank has entered `entered` collectives, and ended all but those after
// `ended`.
// They began at `began_ns`.
std::string dump_of(int entered, int ended, std::int64_t began_ns = 1) {
  std::string bytes = "\x80\x02}("s + pickled("entries") + "](";
  for (int sequence = 1; sequence <= entered; ++sequence) {
    const std::string number = "K"s + static_cast<char>(sequence);
    bytes += "}(" + pickled("profiling_name") + pickled("nccl:all_reduce") +
             pickled("process_group") + "(" + pickled("0") + pickled("default_pg") + "t" +
             pickled("collective_seq_id") + number + pickled("time_created_ns") +
             pickled_number(began_ns) + pickled("record_id") + number + pickled("retired") +
             (sequence <= ended ? "\x88" : "\x89") + "u";
  }
  return bytes + "eu.";
}

class FlightRecordersTest : public ::testing::Test {
 protected:
  FlightRecordersTest() { recorders_.begin_attempt(place_); }

  std::string file(int rank) const { return prefix_ + std::to_string(rank); }
  std::string pipe(int rank) const { return file(rank) + ".pipe"; }

  // Each write is a second later than the one before.
  void write(int rank, const std::string& dump) {
    std::ofstream(file(rank)) << dump;
    std::filesystem::last_write_time(file(rank), at_ += std::chrono::seconds(1));
  }

  void ask(const std::vector<Rank>& ranks) { recorders_.ask(ranks, 60s); }

  std::string answers() {
    while (recorders_.is_waiting()) std::this_thread::yield();
    return recorders_.line();
  }

  static LaunchPlan plan_for(int workers, const Environment& environment = {}) {
    const LaunchOptions options{.nproc_per_node = workers};
    return make_plan(options, {"/bin/true", {"true"}}, environment).value();
  }

  testing::Folder folder_;
  std::filesystem::file_time_type at_ = std::filesystem::file_time_type::clock::now();
  const RunPlace place_{.attempt = 1, .error_folder = folder_.path()};
  const std::string prefix_ = folder_.path() + "/attempt_1_nccl_trace_rank_";
  const LaunchPlan plan_ = plan_for(2);
  FlightRecorders recorders_{plan_};
};

// The pipe of a rank, which reads it only when the test asks.
class Pipe {
 public:
  explicit Pipe(const std::string& path) {
    EXPECT_EQ(::mkfifo(path.c_str(), 0666), 0);
    fd_ = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  }
  ~Pipe() { ::close(fd_); }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  bool is_asked() const {
    char byte = 0;
    return ::read(fd_, &byte, 1) == 1;
  }

 private:
  int fd_ = -1;
};

// As ProcessGroupNCCL: makes the pipe, and answers with a dump.
class Recorder {
 public:
  Recorder(const std::string& pipe, std::string file, std::string dump) {
    EXPECT_EQ(::mkfifo(pipe.c_str(), 0666), 0);
    fd_ = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    answer_ = std::thread([this, file = std::move(file), dump = std::move(dump)] {
      char byte = 0;
      while (::read(fd_, &byte, 1) != 1) {
        if (gives_up_) return;
        std::this_thread::yield();
      }
      // In two parts: a reader may see the first one alone.
      std::ofstream out(file);
      out << dump.substr(0, dump.size() / 2) << std::flush << dump.substr(dump.size() / 2);
    });
  }
  ~Recorder() {
    gives_up_ = true;
    answer_.join();
    ::close(fd_);
  }
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

 private:
  int fd_ = -1;
  std::atomic<bool> gives_up_ = false;
  std::thread answer_;
};

TEST_F(FlightRecordersTest, NamesTheRankThatHasNotEntered) {
  const Recorder rank_0(pipe(0), file(0), dump_of(3, 1)), rank_1(pipe(1), file(1), dump_of(1, 1));
  ask({Rank(0), Rank(1)});
  EXPECT_EQ(answers(),
            "rank 1 has not entered all_reduce, number 2 of group 0; rank 0 waits in it");
}

TEST_F(FlightRecordersTest, NamesTheRankThatHasEnteredNothing) {
  const Recorder rank_0(pipe(0), file(0), dump_of(1, 0)), rank_1(pipe(1), file(1), dump_of(0, 0));
  ask({Rank(0), Rank(1)});
  EXPECT_EQ(answers(),
            "rank 1 has not entered all_reduce, number 1 of group 0; rank 0 waits in it");
}

TEST_F(FlightRecordersTest, SaysNothingIfNoRankWaits) {
  const Recorder rank_0(pipe(0), file(0), dump_of(1, 1));
  ask({Rank(0), Rank(1)});
  EXPECT_EQ(answers(), "");
}

TEST_F(FlightRecordersTest, DoesNotWaitForRanksWithoutAPipe) {
  std::ofstream(pipe(0)) << "no pipe";
  ASSERT_EQ(::mkfifo(pipe(1).c_str(), 0666), 0);  // Nobody reads it.
  ask({Rank(0), Rank(1)});
  EXPECT_FALSE(recorders_.is_waiting());
  EXPECT_EQ(recorders_.line(), "");
}

TEST_F(FlightRecordersTest, DoesNotAskRanksThatHaveEnded) {
  const Pipe rank_0(pipe(0));
  ask({Rank(1)});
  EXPECT_FALSE(recorders_.is_waiting());
  EXPECT_FALSE(rank_0.is_asked());
}

TEST_F(FlightRecordersTest, WaitsOnlyOnceForARankThatDoesNotAnswer) {
  const Pipe rank_0(pipe(0));
  FlightRecorders recorders(plan_);
  recorders.begin_attempt(place_);
  recorders.ask({Rank(0)}, 1ms);
  while (recorders.is_waiting()) std::this_thread::yield();
  EXPECT_EQ(recorders.line(), "");
  EXPECT_TRUE(rank_0.is_asked());
  recorders.ask({Rank(0)}, 1ms);
  EXPECT_TRUE(rank_0.is_asked());
  EXPECT_FALSE(recorders.is_waiting());
  write(0, dump_of(2, 1));
  EXPECT_EQ(recorders.line(), "rank 0 waits in all_reduce, number 2 of group 0");
}

TEST_F(FlightRecordersTest, AnEarlierAnswerDoesNotCount) {
  const Pipe rank_0(pipe(0));
  ask({Rank(0)});
  write(0, dump_of(2, 1));
  EXPECT_EQ(answers(), "rank 0 waits in all_reduce, number 2 of group 0");
  ask({});
  EXPECT_EQ(answers(), "");
}

// Ranks that make progress answer at different times.
TEST_F(FlightRecordersTest, ARankDoesNotWaitInACollectiveThatHasJustBegun) {
  const Pipe rank_0(pipe(0));
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  ask({Rank(0)});
  write(0, dump_of(2, 1, std::chrono::nanoseconds(now).count()));
  EXPECT_EQ(answers(), "");
}

TEST_F(FlightRecordersTest, AnAnswerThatIsNoDumpIsNoAnswer) {
  const Pipe rank_0(pipe(0));
  FlightRecorders recorders(plan_);
  recorders.begin_attempt(place_);
  recorders.ask({Rank(0)}, 1ms);
  write(0, "no pickle");
  while (recorders.is_waiting()) std::this_thread::yield();
  EXPECT_EQ(recorders.line(), "");
}

TEST_F(FlightRecordersTest, ReadsWhatWatchdogsHaveWrittenOnce) {
  EXPECT_EQ(recorders_.line_of_watchdogs(LocalRank(0)), "");
  write(0, dump_of(2, 1));
  write(1, dump_of(1, 1));
  EXPECT_EQ(recorders_.line_of_watchdogs(LocalRank(0)),
            "rank 1 has not entered all_reduce, number 2 of group 0; rank 0 waits in it");
  EXPECT_EQ(recorders_.line_of_watchdogs(LocalRank(0)), "");
  EXPECT_EQ(recorders_.line_of_watchdogs(LocalRank(1)), "");
}

TEST_F(FlightRecordersTest, AFileFromBeforeTheAttemptIsNotOfAWatchdog) {
  const std::string prefix = folder_.path() + "/mine_";
  Environment environment;
  environment.set("TORCH_FR_DUMP_TEMP_FILE", prefix);
  const LaunchPlan plan = plan_for(1, environment);
  std::ofstream(prefix + "0") << dump_of(2, 1);
  FlightRecorders recorders(plan);
  recorders.begin_attempt(place_);
  EXPECT_EQ(recorders.line_of_watchdogs(LocalRank(0)), "");
  std::ofstream(prefix + "0") << dump_of(3, 1);
  EXPECT_NE(recorders.line_of_watchdogs(LocalRank(0)), "");
}

TEST_F(FlightRecordersTest, ComparesTheRanksOfAllNodes) {
  const Recorder rank_0(pipe(0), file(0), dump_of(3, 1)), rank_1(pipe(1), file(1), dump_of(3, 1));
  ask({Rank(0), Rank(1)});
  EXPECT_EQ(answers(), "ranks 0, 1 wait in all_reduce, number 2 of group 0");
  recorders_.keep();
  recorders_.end_attempt();
  EXPECT_EQ(recorders_.kept().size(), 2U);
  EXPECT_EQ(recorders_.line_of_all_nodes(), "") << "no other node has answered";
  RankFlight rank_2 = recorders_.kept()[0];
  rank_2.rank = Rank(2);
  rank_2.operations = {rank_2.operations[0]};
  rank_2.operations[0].sequence = 1;
  rank_2.operations[0].ended = rank_2.operations[0].began;
  recorders_.take(rank_2);
  recorders_.take({.rank = Rank(3), .members = {{"0", {0, 1, 2, 3}}}});
  EXPECT_EQ(recorders_.line_of_all_nodes(),
            "ranks 2, 3 have not entered all_reduce, number 2 of group 0; ranks 0, 1 wait in it");
  recorders_.begin_attempt(place_);
  EXPECT_EQ(recorders_.line_of_all_nodes(), "") << "the attempt is over";
}

// The user asked, and the run went on.
TEST_F(FlightRecordersTest, KeepsNoEarlierAnswers) {
  const Recorder rank_0(pipe(0), file(0), dump_of(3, 1));
  ask({Rank(0)});
  EXPECT_NE(answers(), "");
  recorders_.end_attempt();
  EXPECT_TRUE(recorders_.kept().empty());
}

// The user asked, and the answer came after the run had gone on.
TEST_F(FlightRecordersTest, KeepsNoLateAnswers) {
  const Pipe rank_0(pipe(0));
  recorders_.ask({Rank(0)}, 1ms);
  EXPECT_EQ(answers(), "");
  write(0, dump_of(3, 1));
  recorders_.end_attempt();
  EXPECT_TRUE(recorders_.kept().empty());
}

TEST_F(FlightRecordersTest, KeepsAnswersThatComeWhileTheAttemptIsStopped) {
  const Pipe rank_0(pipe(0));
  recorders_.ask({Rank(0)}, 1ms);
  EXPECT_EQ(answers(), "");
  recorders_.keep();
  write(0, dump_of(3, 1));
  recorders_.end_attempt();
  EXPECT_EQ(recorders_.kept().size(), 1U);
}

// A worker may abort for another reason, after the user asked.
TEST_F(FlightRecordersTest, AnAnswerIsNotOfAWatchdog) {
  const Pipe rank_0(pipe(0));
  ask({Rank(0)});
  write(0, dump_of(3, 1));
  EXPECT_NE(answers(), "");
  EXPECT_EQ(recorders_.line_of_watchdogs(LocalRank(0)), "");
  write(0, dump_of(4, 1));
  EXPECT_NE(recorders_.line_of_watchdogs(LocalRank(0)), "");
}

// The user asked in vain, long before.
TEST_F(FlightRecordersTest, KeepsWhatAWatchdogHasWrittenLongAfterAQuestion) {
  const Pipe rank_0(pipe(0));
  recorders_.ask({Rank(0)}, 1ms);
  EXPECT_EQ(answers(), "");
  at_ += 1min;
  write(0, dump_of(3, 1));
  recorders_.end_attempt();
  EXPECT_EQ(recorders_.kept().size(), 1U);
}

TEST_F(FlightRecordersTest, ACollectiveIsAsOldAsTheFileThatHasIt) {
  const Pipe rank_0(pipe(0));
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  write(0, dump_of(2, 1, std::chrono::nanoseconds(now - 61s).count()));
  std::filesystem::last_write_time(file(0), at_ - 60s);
  EXPECT_EQ(recorders_.line_of_watchdogs(LocalRank(0)), "");
}

TEST_F(FlightRecordersTest, KeepsWhatWatchdogsHaveWritten) {
  write(0, dump_of(3, 1));
  EXPECT_NE(recorders_.line_of_watchdogs(LocalRank(0)), "");
  write(1, dump_of(1, 1));
  recorders_.end_attempt();
  ASSERT_EQ(recorders_.kept().size(), 2U);
  EXPECT_EQ(recorders_.kept()[0].rank, Rank(0));
  EXPECT_EQ(recorders_.kept()[1].rank, Rank(1));
}

TEST_F(FlightRecordersTest, RemovesItsPipesAndNoOtherFile) {
  const Pipe rank_0(pipe(0));
  std::ofstream(pipe(1)) << "no pipe";
  recorders_.end_attempt();
  EXPECT_FALSE(std::filesystem::exists(pipe(0)));
  EXPECT_TRUE(std::filesystem::exists(pipe(1)));
}

TEST_F(FlightRecordersTest, WithoutAFolderNobodyIsAsked) {
  FlightRecorders recorders(plan_);
  recorders.begin_attempt({});
  recorders.ask({Rank(0)}, 1ms);
  EXPECT_FALSE(recorders.is_waiting());
  EXPECT_EQ(recorders.line(), "");
  EXPECT_EQ(recorders.line_of_watchdogs(LocalRank(0)), "");
}

}  // namespace
}  // namespace distrun

#include "launcher/run/run_output.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "common/test/folder.h"
#include "common/units.h"

namespace distrun {
namespace {

constexpr LocalRank kWorker0(0), kWorker1(1);

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write(const UniqueFd& to, const std::string& bytes) {
  EXPECT_EQ(::write(to.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
}

// The test acts as two workers; distrun's stdout and stderr are files.
class RunOutputTest : public ::testing::Test {
 protected:
  RunOutputTest() {
    out_ = open_file("out");
    err_ = open_file("err");
  }

  UniqueFd open_file(const std::string& name) const {
    const std::string path = folder_ + "/" + name;
    return UniqueFd(::open(path.c_str(), O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600));
  }

  RunOutput& make(const LogChoice& choice) {
    LaunchOptions options{.nproc_per_node = 2};
    options.log = choice;
    plan_ = make_plan(options, {"/bin/true", {"true"}}, {}).value();
    return output_.emplace(io_, plan_, folder_ + "/run",
                           RunOutput::Consoles{.out = out_.get(), .err = err_.get()},
                           [](const RunOutput::Lost&) {});
  }
  void poll() {
    io_.restart();
    io_.poll();
  }

  const testing::Folder own_;
  const std::string folder_ = own_.path();
  boost::asio::io_context io_;
  UniqueFd out_, err_;
  LaunchPlan plan_;
  std::optional<RunOutput> output_;
};

TEST_F(RunOutputTest, ReportsTheEndOnceBothStreamsHaveEnded) {
  RunOutput& output = make({});
  auto given = output.open(kWorker0).value();
  int ended = 0;
  output.watch(kWorker0, [&] { ++ended; });
  write(given.out, "hello");
  given.out.reset();
  poll();
  EXPECT_EQ(ended, 0);
  given.err.reset();
  poll();
  EXPECT_EQ(ended, 1);
  EXPECT_FALSE(output.close(kWorker0));
  EXPECT_EQ(contents(folder_ + "/out"), "hello");
}

TEST_F(RunOutputTest, ReportsTheEndAtOnceIfNoStreamIsRead) {
  LogChoice choice;
  choice.redirects.all = StreamsByRank::kBoth;
  RunOutput& output = make(choice);
  const auto given = output.open(kWorker0).value();
  int ended = 0;
  output.watch(kWorker0, [&] { ++ended; });
  EXPECT_EQ(ended, 0) << "told from within the call";
  poll();
  EXPECT_EQ(ended, 1);
  EXPECT_FALSE(output.close(kWorker0));
}

// From within `on_end`, the driver starts the next attempt, which destroys the caller. The running
// function must survive; sanitizers check this.
TEST_F(RunOutputTest, NewAttemptMayStartFromTheEndHandler) {
  LogChoice choice;
  choice.tees.all = StreamsByRank::kOut;
  RunOutput& output = make(choice);
  for (int attempt = 0; attempt < 3; ++attempt) {
    output.begin_attempt(attempt);
    bool ended = false;
    {
      const auto given = output.open(kWorker0).value();
      output.watch(kWorker0, [&, still_here = std::string("still here, and not in its object")] {
        output.begin_attempt(attempt + 1);
        ended = still_here.back() == 't';
      });
      write(given.out, "attempt " + std::to_string(attempt) + "\n");
    }
    poll();
    EXPECT_TRUE(ended);
    EXPECT_EQ(contents(folder_ + "/run/attempt_" + std::to_string(attempt) + "/0/stdout.log"),
              "attempt " + std::to_string(attempt) + "\n");
  }
  EXPECT_EQ(contents(folder_ + "/out"),
            "[default0]:attempt 0\n[default0]:attempt 1\n[default0]:attempt 2\n");
}

TEST_F(RunOutputTest, KeepsLastLinesOfStderrOrElseStdout) {
  RunOutput& output = make({});
  const auto zero = output.open(kWorker0).value(), one = output.open(kWorker1).value();
  write(zero.out, "out 0\n");
  write(zero.err, "err 0\n");
  write(one.out, "out 1\n");
  for (const LocalRank worker : {kWorker0, kWorker1}) output.watch(worker, [] {});
  EXPECT_TRUE(output.close(kWorker0) && output.close(kWorker1));
  EXPECT_EQ(output.last_output(kWorker0), "err 0\n");
  EXPECT_EQ(output.last_output(kWorker1), "out 1\n");
  EXPECT_EQ(output.log_folder(kWorker0), "");
}

TEST_F(RunOutputTest, CountsOutputIncludingRedirectedFiles) {
  LogChoice choice;
  choice.redirects.some[kWorker1] = StreamsByRank::kBoth;
  RunOutput& output = make(choice);
  const auto zero = output.open(kWorker0).value(), one = output.open(kWorker1).value();
  output.watch(kWorker0, [] {});
  EXPECT_EQ(output.bytes(), 0U);
  write(zero.out, "12345");
  write(one.err, "1234567");
  poll();
  EXPECT_EQ(output.bytes(), 12U);
}

TEST_F(RunOutputTest, IsHeldUpWhileAConsoleIsFull) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd reader(ends[0]);
  out_.reset(ends[1]);
  RunOutput& output = make({});
  const auto given = output.open(kWorker0).value();
  output.watch(kWorker0, [] {});
  EXPECT_FALSE(output.is_held_up());
  for (int i = 0; i < 100 && !output.is_held_up(); ++i) {
    write(given.out, std::string(16 * kKiB, '\n'));
    poll();
  }
  EXPECT_TRUE(output.is_held_up());
}

TEST_F(RunOutputTest, ReadsTheLastLinesOfARedirectedFile) {
  LogChoice choice;
  choice.redirects.some[kWorker1] = StreamsByRank::kBoth;
  RunOutput& output = make(choice);
  EXPECT_TRUE(output.open(kWorker0));
  const auto given = output.open(kWorker1).value();
  write(given.out, "to the file\n");
  EXPECT_EQ(output.last_output(kWorker1), "to the file\n");
  std::string many;
  for (int i = 0; i < 50'000; ++i) many += "line " + std::to_string(i) + "\n";
  write(given.err, many);
  EXPECT_EQ(output.last_output(kWorker1), many.substr(many.find("line 49990\n")));
  EXPECT_EQ(output.log_folder(kWorker1), folder_ + "/run/attempt_0/1");
  EXPECT_EQ(output.log_folder(kWorker0), "");
  EXPECT_EQ(contents(folder_ + "/out"), "");
}

TEST_F(RunOutputTest, SharedStdoutAndStderrAreOneConsole) {
  err_ = open_file("out");
  RunOutput& output = make({});
  const auto zero = output.open(kWorker0).value(), one = output.open(kWorker1).value();
  output.watch(kWorker0, [] {});
  output.watch(kWorker1, [] {});
  write(zero.err, "\r 10%");
  poll();
  write(one.out, "other\n");
  poll();
  EXPECT_EQ(contents(folder_ + "/out"), "\r 10%\nother\n");
  write(zero.out, "\r 20%");
  poll();
  output.say("distrun: …\n");
  EXPECT_EQ(contents(folder_ + "/out"), "\r 10%\nother\n\r 20%\ndistrun: …\n");
}

TEST_F(RunOutputTest, NamesFilesThatCannotBeOpened) {
  LogChoice choice;
  choice.redirects.all = StreamsByRank::kOut;
  RunOutput& output = make(choice);
  std::filesystem::create_directories(folder_ + "/run/attempt_0/0/stdout.log");
  const std::string path = folder_ + "/run/attempt_0/0/stdout.log";
  EXPECT_EQ(output.open(kWorker0).error().message, "open " + path + ": is a directory");
}

}  // namespace
}  // namespace distrun

#include "distrun/record.h"

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/crash/error_file.h"
#include "common/test/folder.h"
#include "common/text/demangle.h"

namespace distrun {
namespace {

using ::testing::AllOf;
using ::testing::ExitedWithCode;
using ::testing::HasSubstr;
using ::testing::KilledBySignal;
using ::testing::Not;
using ::testing::StartsWith;

// Death tests run the program record_failures. They check its end and stderr; this fixture checks
// its error file.
class RecordTest : public ::testing::Test {
 protected:
  RecordTest() {
    std::ofstream(path_) << std::string(200'000, 'x');  // Is replaced.
  }

  void fail_by(const std::string& way, const std::string& more = "3") const {
    for (const auto& [name, value] : variables_) ::setenv(name.c_str(), value.c_str(), 1);
    ::execl(RECORD_FAILURES, "record_failures", way.c_str(), more.c_str(), nullptr);
    std::abort();
  }

  ErrorReport report() const {
    auto read = read_error_file(path_);
    EXPECT_TRUE(read) << (read ? "" : read.error().message);
    return read && *read ? **read : ErrorReport{};
  }
  std::string stack() const { return demangled_backtrace(report().callstack); }

  testing::Folder temporary_;
  const std::string folder_ = temporary_.path();
  const std::string path_ = folder_ + "/error.json";
  std::map<std::string, std::string> variables_ = {{"TORCHELASTIC_ERROR_FILE", path_},
                                                   {"RANK", "3"}};
};

TEST_F(RecordTest, ExceptionExitsWithStatus1AndItsTextIsInTheFile) {
  EXPECT_EXIT(fail_by("throw"), ExitedWithCode(1),
              "^record_failures: std::runtime_error: cannot open digits \"a\"\n");
  EXPECT_EQ(report().message, "std::runtime_error: cannot open digits \"a\"");
  EXPECT_EQ(report().rank, 3);
  EXPECT_GT(report().timestamp.value_or(0), 1'700'000'000);
}

// Destructors on the way from the throw to main must not unwind the stack first.
TEST_F(RecordTest, BacktraceOfAnExceptionStartsAtTheThrow) {
  EXPECT_EXIT(fail_by("throw"), ExitedWithCode(1), "#0 \\(anonymous namespace\\)::open_data");
  EXPECT_THAT(stack(), AllOf(StartsWith("#0 (anonymous namespace)::open_data(std::string const&)"),
                             HasSubstr("(anonymous namespace)::fail(int, char**)"),
                             HasSubstr("record_failures+0x")));
}

TEST_F(RecordTest, BacktraceOmitsTheStandardLibrarysThrowFunctions) {
  EXPECT_EXIT(fail_by("at"), ExitedWithCode(1), "std::out_of_range: vector::_M_range_check");
  EXPECT_THAT(stack(),
              AllOf(HasSubstr(" (anonymous namespace)::read_at"), Not(HasSubstr("__throw"))));
}

TEST_F(RecordTest, DescribesExceptionsThatAreNotStdException) {
  EXPECT_EXIT(fail_by("text"), ExitedWithCode(1), "char const\\*: a mere text\n");
  EXPECT_EXIT(fail_by("number"), ExitedWithCode(1), "int: an exception without a text\n");
}

TEST_F(RecordTest, LongTextIsCutInTheFile) {
  EXPECT_EXIT(fail_by("long"), ExitedWithCode(1), "std::runtime_error: xxx");
  EXPECT_THAT(report().message, StartsWith("std::runtime_error: xxx"));
  EXPECT_THAT(stack(), HasSubstr("(anonymous namespace)::fail(int, char**)"));
}

TEST_F(RecordTest, LibTorchsOwnBacktraceIsCutToItsFirstLine) {
  EXPECT_EXIT(fail_by("torch"), ExitedWithCode(1), "LibTorchsError: sizes differ\nException");
  EXPECT_THAT(report().message, ::testing::EndsWith("LibTorchsError: sizes differ"));
  EXPECT_THAT(stack(),
              StartsWith("Exception raised from f at x.cpp:3 (most recent call first):\n#0 "));
}

TEST_F(RecordTest, ReportsAnExceptionInAThread) {
  EXPECT_EXIT(fail_by("thread"), ExitedWithCode(1), "std::runtime_error: cannot open it\n");
  EXPECT_THAT(stack(), StartsWith("#0 (anonymous namespace)::open_data"));
}

TEST_F(RecordTest, ReportsAnExceptionStoppedByNoexcept) {
  EXPECT_EXIT(fail_by("noexcept"), ExitedWithCode(1), "std::runtime_error: cannot open it\n");
  EXPECT_EQ(report().message, "std::runtime_error: cannot open it");
  EXPECT_THAT(stack(), AllOf(StartsWith("#0 (anonymous namespace)::"),
                             HasSubstr("(anonymous namespace)::forbids()")));
}

TEST_F(RecordTest, TerminateWithoutAnExceptionEndsWithSigabrt) {
  EXPECT_EXIT(fail_by("terminate"), KilledBySignal(SIGABRT), "std::terminate: called without");
  EXPECT_THAT(report().message, StartsWith("std::terminate: "));
  EXPECT_THAT(stack(), HasSubstr("(anonymous namespace)::fail("));
}

TEST_F(RecordTest, SignalEndsTheProcessAndTheStackIsInTheFile) {
  EXPECT_EXIT(fail_by("segv"), KilledBySignal(SIGSEGV),
              "^record_failures: SIGSEGV: no memory at 0x0\n#0 ");
  EXPECT_EQ(report().message, "SIGSEGV: no memory at 0x0");
  EXPECT_EQ(report().rank, 3);
  EXPECT_THAT(stack(), AllOf(StartsWith("#0 (anonymous namespace)::touch()+0x"),
                             HasSubstr("(anonymous namespace)::fail(int, char**)")));
}

TEST_F(RecordTest, ReportsEverySignalThatIsAFailure) {
  EXPECT_EXIT(fail_by("fpe"), KilledBySignal(SIGFPE), "SIGFPE: integer division by zero at 0x");
  EXPECT_THAT(stack(), StartsWith("#0 (anonymous namespace)::divide()"));
  EXPECT_EXIT(fail_by("ill"), KilledBySignal(SIGILL), "SIGILL: illegal instruction at 0x");
  EXPECT_EXIT(fail_by("bus"), KilledBySignal(SIGBUS), "SIGBUS: nothing is mapped at 0x");
  EXPECT_EXIT(fail_by("kill_segv"), KilledBySignal(SIGSEGV), "SIGSEGV: the program sent it");
}

TEST_F(RecordTest, BacktraceOfAbortAndAssertStartsAtTheirCaller) {
  for (const char* way : {"abort", "assert"}) {
    EXPECT_EXIT(fail_by(way), KilledBySignal(SIGABRT), "SIGABRT: the program called abort");
    EXPECT_THAT(stack(), HasSubstr("#1 (anonymous namespace)::fail(int, char**)"));
  }
}

TEST_F(RecordTest, ReportsASignalInAThreadOnce) {
  EXPECT_EXIT(fail_by("segv_in_thread"), KilledBySignal(SIGSEGV), "SIGSEGV");
  EXPECT_THAT(stack(), StartsWith("#0 (anonymous namespace)::touch()"));
  EXPECT_EXIT(fail_by("segv_in_all_threads"), KilledBySignal(SIGSEGV), "SIGSEGV");
  EXPECT_THAT(stack(), StartsWith("#0 (anonymous namespace)::touch()"));
}

TEST_F(RecordTest, ReportsAStackOverflow) {
  EXPECT_EXIT(fail_by("overflow"), KilledBySignal(SIGSEGV), "SIGSEGV: no memory at 0x");
  EXPECT_THAT(stack(), StartsWith("#0 (anonymous namespace)::recurse(int)"));
}

// Reading the stack crashes; the report written before must remain.
TEST_F(RecordTest, ReportsTheSignalEvenIfTheStackIsUnreadable) {
  EXPECT_EXIT(fail_by("lost_stack"), KilledBySignal(SIGSEGV), "SIGSEGV: no memory at 0x0\n$");
  EXPECT_EQ(report().message, "SIGSEGV: no memory at 0x0");
  EXPECT_EQ(stack(), "");
}

TEST_F(RecordTest, CrashWhileReportingAnExceptionEndsAsTheException) {
  EXPECT_EXIT(fail_by("what"), ExitedWithCode(1), "^$");
}

TEST_F(RecordTest, ReportsTheCallerOfANullPointer) {
  EXPECT_EXIT(fail_by("call_nothing"), KilledBySignal(SIGSEGV),
              "SIGSEGV: no memory at 0x0\n#0 0x0\n");
  EXPECT_THAT(stack(), HasSubstr("#1 (anonymous namespace)::call_nothing()"));
}

// stderr is a full pipe that no process reads.
TEST_F(RecordTest, BlockedReportStillEndsWithTheSignal) {
  EXPECT_EXIT(
      {
        int ends[2];
        if (::pipe2(ends, O_NONBLOCK) != 0) std::abort();
        while (::write(ends[1], "x", 1) == 1) {
        }
        if (::fcntl(ends[1], F_SETFL, 0) != 0) std::abort();
        ::dup2(ends[1], STDERR_FILENO);
        fail_by("segv");
      },
      KilledBySignal(SIGSEGV), "^$");
  EXPECT_EQ(report().message, "SIGSEGV: no memory at 0x0");
}

TEST_F(RecordTest, OrdinaryExitWritesNoFile) {
  std::filesystem::remove(path_);
  EXPECT_EXIT(fail_by("return"), ExitedWithCode(7), "^$");
  EXPECT_EXIT(fail_by("exit"), ExitedWithCode(8), "^$");
  EXPECT_EXIT(fail_by("term"), KilledBySignal(SIGTERM), "^$");
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(RecordTest, WithoutTheVariableTheReportGoesOnlyToStderr) {
  std::filesystem::remove(path_);
  variables_["TORCHELASTIC_ERROR_FILE"] = "";
  EXPECT_EXIT(fail_by("throw"), ExitedWithCode(1), "std::runtime_error: cannot open");
  EXPECT_EXIT(fail_by("segv"), KilledBySignal(SIGSEGV), "SIGSEGV: no memory at 0x0\n#0 ");
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

TEST_F(RecordTest, UnwritableFileChangesNothingElse) {
  ASSERT_EQ(::mkfifo((folder_ + "/pipe").c_str(), 0600), 0);  // Opening it would block.
  for (const std::string name : {"/no/such/folder", "/pipe"}) {
    variables_["TORCHELASTIC_ERROR_FILE"] = folder_ + name;
    EXPECT_EXIT(fail_by("throw"), ExitedWithCode(1), "std::runtime_error: cannot open");
    EXPECT_EXIT(fail_by("throw"), ExitedWithCode(1), "\nno error file: .*" + name);
    EXPECT_EXIT(fail_by("segv"), KilledBySignal(SIGSEGV), "SIGSEGV: no memory at 0x0\n#0 ");
  }
}

TEST_F(RecordTest, KeepsAHandlerInstalledBefore) {
  variables_.erase("RANK");
  EXPECT_EXIT(fail_by("segv", "handler"), ExitedWithCode(9), "^$");
}

TEST_F(RecordTest, StdoutIsFlushedBeforeAnExceptionEndsTheProcess) {
  const std::string command = "TORCHELASTIC_ERROR_FILE= " RECORD_FAILURES " throw 2>/dev/null >" +
                              folder_ + "/out; test \"$(cat " + folder_ + "/out)\" = 'not flushed'";
  EXPECT_EQ(std::system(command.c_str()), 0);
}

TEST_F(RecordTest, ClosedReaderOfStderrDoesNotChangeTheExit) {
  EXPECT_EXIT(
      {
        int ends[2];
        if (::pipe(ends) != 0) std::abort();
        ::close(ends[0]);
        ::dup2(ends[1], STDERR_FILENO);
        fail_by("throw");
      },
      ExitedWithCode(1), "^$");
  EXPECT_THAT(report().message, StartsWith("std::runtime_error"));
}

}  // namespace
}  // namespace distrun

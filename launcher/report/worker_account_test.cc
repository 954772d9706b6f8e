#include "launcher/report/worker_account.h"

#include <string>

#include <gtest/gtest.h>

namespace distrun {
namespace {

constexpr const char* kTraceback =
    "Traceback (most recent call last):\n"
    "  File \"/venv/errors/__init__.py\", line 355, in wrapper\n"
    "    return f(*args, **kwargs)\n"
    "           ^^^^^^^^^^^^^^^^^^\n"
    "  File \"train.py\", line 9, in main\n"
    "    load(path)\n"
    "  File \"train.py\", line 4, in load\n"
    "    raise ValueError(path)\n"
    "ValueError: digits.csv\n";

std::string account(const WorkerReport& worker) { return worker_account(worker, {}, "  "); }

TEST(WorkerAccountTest, IsEmptyIfNothingIsKnown) { EXPECT_EQ(account({}), ""); }

TEST(WorkerAccountTest, ShowsLastCallsOfAPythonTraceback) {
  EXPECT_EQ(worker_account({.error = "ValueError: digits.csv", .callstack = kTraceback},
                           {.call_lines = 4}, "  "),
            "  error: ValueError: digits.csv\n"
            "      File \"train.py\", line 9, in main\n"
            "        load(path)\n"
            "      File \"train.py\", line 4, in load\n"
            "        raise ValueError(path)\n");
}

TEST(WorkerAccountTest, ShowsFirstCallsOfACppBacktrace) {
  EXPECT_EQ(
      worker_account({.error = "SIGSEGV: no memory at 0x0",
                      .callstack = "#0 touch()+0x2 (w+0x1)\n#1 train()\n#2 main\n#3 _start\n"},
                     {.call_lines = 2}, ""),
      "error: SIGSEGV: no memory at 0x0\n"
      "  #0 touch()+0x2 (w+0x1)\n"
      "  #1 train()\n");
}

TEST(WorkerAccountTest, ShowsLastLinesAndLog) {
  EXPECT_EQ(account({.last_output = "epoch 1\nepoch 2\n", .log_folder = "/logs/0/1"}),
            "  last lines:\n"
            "    epoch 1\n"
            "    epoch 2\n"
            "  log: /logs/0/1\n");
}

// Python's own traceback also has the frames outside @record.
TEST(WorkerAccountTest, OmitsLastLinesThatRepeatTheErrorFile) {
  std::string printed(kTraceback);
  printed.insert(printed.find('\n') + 1, "  File \"train.py\", line 12, in <module>\n    main()\n");
  WorkerReport worker{.last_output = "epoch 3\n" + printed + "bye\n",
                      .error = "ValueError: digits.csv",
                      .callstack = kTraceback};
  const std::string account_of_error = account({.error = worker.error, .callstack = kTraceback});
  EXPECT_EQ(account(worker), account_of_error +
                                 "  last lines:\n"
                                 "    epoch 3\n"
                                 "    bye\n");
  worker.last_output = printed.substr(printed.find("    main()"));  // Earlier lines are gone.
  EXPECT_EQ(account(worker), account_of_error);
}

TEST(WorkerAccountTest, OmitsLastLinesThatRepeatARecordedBacktrace) {
  EXPECT_EQ(account({.last_output = "epoch 3\nworker: std::runtime_error: bad\n#0 f()\n#1 g()\n",
                     .error = "std::runtime_error: bad",
                     .callstack = "#0 f()\n#1 g()\n"}),
            "  error: std::runtime_error: bad\n"
            "    #0 f()\n"
            "    #1 g()\n"
            "  last lines:\n"
            "    epoch 3\n");
}

// After a signal, names on stderr are mangled.
TEST(WorkerAccountTest, OmitsLastLinesThatRepeatTheBacktraceOfASignal) {
  EXPECT_EQ(account({.last_output = "w: SIGSEGV: no memory at 0x0\n#0 _Z1fv+0x2 (w+0x1)\n",
                     .error = "SIGSEGV: no memory at 0x0",
                     .callstack = "#0 f()+0x2 (w+0x1)\n"}),
            "  error: SIGSEGV: no memory at 0x0\n"
            "    #0 f()+0x2 (w+0x1)\n");
}

TEST(WorkerAccountTest, DoesNotDemangleOutput) {
  EXPECT_EQ(account({.last_output = "ImportError: undefined symbol: _Z5trainv\n"}),
            "  last lines:\n"
            "    ImportError: undefined symbol: _Z5trainv\n");
}

TEST(WorkerAccountTest, OmitsFramesBelowMain) {
  EXPECT_EQ(account({.error = "E: x",
                     .callstack = "#0 main+0x2 (w+0x1)\n#1 0x7f (/lib/libc.so.6+0x27249)\n"
                                  "#2 __libc_start_main+0x84 (/lib/libc.so.6+0x2)\n"
                                  "#3 _start+0x20 (w+0x3)\n"}),
            "  error: E: x\n"
            "    #0 main+0x2 (w+0x1)\n");
}

TEST(WorkerAccountTest, LimitsLinesAndTheirLength) {
  std::string many;
  for (int i = 0; i < 1000; ++i) many += "line " + std::to_string(i) + '\n';
  EXPECT_EQ(worker_account({.last_output = many, .error = "E: x\n" + many, .callstack = many},
                           {.error_lines = 2, .call_lines = 1, .output_lines = 2}, ""),
            "error: E: x\n"
            "  line 0\n"
            "  …\n"
            "  line 0\n"
            "last lines:\n"
            "  line 998\n"
            "  line 999\n");
  const std::string wide = account({.error = std::string(100'000, 'x')});
  EXPECT_LT(wide.size(), 400u);
}

TEST(WorkerAccountTest, EscapesControlCharacters) {
  EXPECT_EQ(account({.last_output = "10%\r50%\r99%\r\n\x1b[31mred\tx  \n\n\n"}),
            "  last lines:\n"
            "    99%\n"
            "    \\x1b[31mred    x\n");
}

TEST(WorkerAccountTest, ErrorPrintedAboveIsOneLine) {
  constexpr AccountBounds kBelow{.below_output = true};
  WorkerReport worker{.last_output = "epoch 3\nE: no digit\n#0 load()+0x1\n",
                      .error = "E: no digit\nsecond line",
                      .callstack = "#0 load()+0x1\n"};
  EXPECT_EQ(worker_account(worker, kBelow, ""), "error: E: no digit\n");
  worker.callstack = "#0 other()+0x1\n";  // Not in the output above.
  EXPECT_EQ(worker_account(worker, kBelow, ""), worker_account(worker, {}, ""));
  worker = {.last_output = "epoch 3\n"};
  EXPECT_EQ(worker_account(worker, kBelow, ""), worker_account(worker, {}, ""));
}

}  // namespace
}  // namespace distrun

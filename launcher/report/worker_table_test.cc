#include "launcher/report/worker_table.h"

#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace distrun {
namespace {

using std::chrono::milliseconds;
using ::testing::EndsWith;

ProcessStat stat(char state) {
  return {.state = state, .session = 1, .cpu_time = milliseconds(900), .resident_bytes = 3 << 19};
}

WorkerRow row(char state) {
  return {.rank = Rank(0),
          .pid = 4711,
          .run_time = milliseconds(31'200),
          .stat = stat(state),
          .processes = 2};
}

TEST(WorkerTableTest, ColumnsLineUp) {
  WorkerRow busy = row('R');
  busy.rank = Rank(1023);
  busy.pid = 4'194'303;
  busy.run_time = milliseconds(360'000'000);
  busy.stat->cpu_time = milliseconds(1'234'567'890);
  busy.stat->resident_bytes = 100ull << 30;
  busy.processes = 17;
  EXPECT_EQ(worker_table({row('S'), busy, {.rank = Rank(2)}}),
            "rank      pid        time          CPU        memory  processes  state\n"
            "   0     4711      31.2 s        0.9 s       1.5 MiB          2  sleeping\n"
            "1023  4194303  360000.0 s  1234567.9 s  102400.0 MiB         17  running\n"
            "   2        -           -            -             -          -  not started yet\n");
}

TEST(WorkerTableTest, CapitalizesStatesThatNeedAttention) {
  EXPECT_THAT(worker_table({row('T')}), EndsWith("  STOPPED\n"));
  EXPECT_THAT(worker_table({row('t')}), EndsWith("  STOPPED by a debugger\n"));
  EXPECT_THAT(worker_table({row('D')}), EndsWith("  WAITS IN THE KERNEL (D)\n"));
  EXPECT_THAT(worker_table({row('?')}), EndsWith("  state ?\n"));
}

TEST(WorkerTableTest, MarksARankThatDelaysTheOthers) {
  WorkerRow late = row('R');
  late.is_straggler = true;
  EXPECT_THAT(worker_table({late}), EndsWith("  running; DELAYS THE OTHERS\n"));
}

TEST(WorkerTableTest, ShowsHowAWorkerEnded) {
  WorkerRow ended{
      .rank = Rank(0), .pid = 7, .run_time = milliseconds(100), .end = KilledBy{SIGSEGV}};
  EXPECT_EQ(worker_table({ended}),
            "rank  pid   time  CPU  memory  processes  state\n"
            "   0    7  0.1 s    -       -          -  signal SIGSEGV (11)\n");
  ended.end = ExitedWith{0};
  ended.output_open = true;
  ended.processes = 3;  // Leaked processes.
  EXPECT_EQ(worker_table({ended}),
            "rank  pid   time  CPU  memory  processes  state\n"
            "   0    7  0.1 s    -       -          3  exit code 0; ITS OUTPUT IS STILL OPEN\n");
}

TEST(WorkerTableTest, WorkerWithoutStatIsEnding) {
  WorkerRow gone = row('R');
  gone.stat.reset();
  EXPECT_THAT(worker_table({gone}), EndsWith("  ending\n"));
  EXPECT_THAT(worker_table({row('Z')}), EndsWith("  ending\n"));
}

}  // namespace
}  // namespace distrun

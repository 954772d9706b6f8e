#include "testsuites/harness/run/python_crash.h"

#include <gtest/gtest.h>

namespace distrun {
namespace {

const std::string kThread = R"(Thread 0x00007f41021ae6c0 (most recent call first):
  File "/tmp/distrun/distrun_rank.py", line 158 in distrun_answers
  File "/usr/lib/python3.11/threading.py", line 975 in run

)";

const std::string kCrash = "Fatal Python error: Segmentation fault\n\n" + kThread +
                           R"(Current thread 0x00007f41024a42c0 (most recent call first):
  File "/usr/lib/python3.11/ctypes/__init__.py", line 519 in string_at
  File "/home/me/my_test.py", line 7 in read_it
  File "/home/me/my_test.py", line 12 in test_reads
  File "/usr/lib/python3/dist-packages/torch/testing/_internal/common_utils.py", line 3226 in wrapper
  File "/tmp/distrun/distrun_rank.py", line 105 in distrun_runs_test
  File "/tmp/distrun/distrun_rank.py", line 40 in run

Extension modules: numpy._core._multiarray_umath, torch._C (total: 2)
)";

TEST(PythonCrashTest, NamesTheCallOfTheTestThatCrashed) {
  EXPECT_EQ(place_of_python_crash("hello\n" + kCrash),
            "string_at, called by read_it (my_test.py:7)");
  EXPECT_EQ(place_of_python_crash("hello\n"), "");
}

TEST(PythonCrashTest, ShowsTheCrashedThreadFromTheTestOn) {
  EXPECT_EQ(with_short_python_crashes("hello\n" + kCrash + "bye"),
            "hello\n"
            "Fatal Python error: Segmentation fault\n"
            "  test_reads (my_test.py:12)\n"
            "  read_it (my_test.py:7)\n"
            "  string_at (ctypes/__init__.py:519)\n"
            "… 11 lines left out; --json FILE writes them\n"
            "bye");
}

const std::string kNative = R"(SIGSEGV(11), PID: 24555, Thread 24555: 
 frame #0: c10::FatalSignalHandler::stacktraceSignalHandler(bool) + 0x8f (0x7f2 in /x/torch/lib/libc10.so)
frame #1: <unknown function> + 0x3c050 (0x7f26a032d050 in /lib/x86_64-linux-gnu/libc.so.6)
frame #2: at::native::fill(at::Tensor&) + 0x7 (0x7f26a032d267 in /x/torch/lib/libtorch_cpu.so)
frame #3: torch::fill(at::Tensor&) + 0x7 (0x7f26a032d267 in /x/torch/lib/libtorch_python.so)
frame #4: python3() [0x66b4fa]
frame #5: main + 0x7 (0x7f26a032d267 in /bin/python3)

SIGSEGV(11), PID: 24555, Thread 24556: 
 frame #0: poll + 0x4f (0x7f26a03ed26f in /lib/libc.so.6)

)";

// LibTorch prints the stacks of all threads first.
TEST(PythonCrashTest, ShowsTheCallsOfLibrariesInTheThreadThatCrashed) {
  const std::string crash = kNative + R"(Fatal Python error: Segmentation fault

Stack (most recent call first):
  File "/home/me/my_test.py", line 12 in test_reads
  File "/tmp/distrun/distrun_rank.py", line 105 in distrun_runs_test

Extension modules: torch._C (total: 1)
)";
  EXPECT_EQ(place_of_python_crash(crash), "test_reads (my_test.py:12)");
  EXPECT_EQ(with_short_python_crashes("hello\n" + crash),
            "hello\n"
            "Fatal Python error: Segmentation fault\n"
            "  test_reads (my_test.py:12)\n"
            "  torch::fill(at::Tensor&) (libtorch_python.so)\n"
            "  at::native::fill(at::Tensor&) (libtorch_cpu.so)\n"
            "… 14 lines left out; --json FILE writes them\n");
  EXPECT_EQ(with_short_python_crashes(kNative + "end"), kNative + "end") << "not of Python";
}

TEST(PythonCrashTest, OmitsCallsThatStartTheThreadThatCrashed) {
  const std::string crash = R"(Fatal Python error: Aborted

Current thread 0x00007f41024a42c0 (most recent call first):
  File "/home/me/my_test.py", line 7 in work
  File "/usr/lib/python3.11/threading.py", line 975 in run
  File "/usr/lib/python3.11/threading.py", line 1038 in _bootstrap_inner
)";
  EXPECT_EQ(place_of_python_crash(crash), "work (my_test.py:7)");
  EXPECT_EQ(with_short_python_crashes(crash),
            "Fatal Python error: Aborted\n"
            "  work (my_test.py:7)\n"
            "… 4 lines left out; --json FILE writes them\n");
}

TEST(PythonCrashTest, OtherOutputEndsACrash) {
  const std::string crash = R"(Fatal Python error: Aborted

Current thread 0x00007f41024a42c0 [python3] (most recent call first):
  <no Python frame>
terminate called
  File "/home/me/my_test.py", line 7 in work
)";
  EXPECT_EQ(place_of_python_crash(crash), "");
  EXPECT_EQ(with_short_python_crashes(crash),
            "Fatal Python error: Aborted\n"
            "… 3 lines left out; --json FILE writes them\n"
            "terminate called\n"
            "  File \"/home/me/my_test.py\", line 7 in work\n");
}

// Python 3.14 prints the stack of C too.
TEST(PythonCrashTest, TheStackOfCIsLeftOut) {
  EXPECT_EQ(with_short_python_crashes(R"(Fatal Python error: Aborted

Current thread 0x00007f41024a42c0 [python3] (most recent call first):
  File "/home/me/my_test.py", line 7 in work

Current thread's C stack trace (most recent call first):
  Binary file "/usr/bin/python3", at _Py_DumpStack+0x40 [0x55f]

)"),
            "Fatal Python error: Aborted\n"
            "  work (my_test.py:7)\n"
            "… 6 lines left out; --json FILE writes them\n");
}

TEST(PythonCrashTest, TheLastCrashCounts) {
  const std::string child = R"(Fatal Python error: Aborted

Current thread 0x00007f41024a42c0 (most recent call first):
  File "/home/me/my_test.py", line 9 in child

)";
  EXPECT_EQ(place_of_python_crash(child + kCrash), "string_at, called by read_it (my_test.py:7)");
  EXPECT_EQ(place_of_python_crash(kCrash + child), "child (my_test.py:9)");
}

}  // namespace
}  // namespace distrun

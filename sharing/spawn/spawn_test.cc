#include "distrun/spawn.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <memory>

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include "common/os/proc.h"
#include "common/test/folder.h"
#include "sharing/spawn/test/spawn_fixture.h"

namespace distrun {
namespace {

using ::testing::ElementsAre;
using testing::exception_of;
using ::testing::HasSubstr;
using testing::kLong;
using ::testing::MatchesRegex;

void add_to_own(int index, SpawnArguments& arguments) {
  arguments.tensors.at(static_cast<std::size_t>(index)).add_(index + 1);
  arguments.queues.at(0).put({{at::full({3}, index)}, arguments.text});
}
const SpawnFunction kAddToOwn("add to own", add_to_own);

TEST(SpawnTest, ProcessesGetTensorsQueuesAndTextAndWriteTheParentsMemory) {
  const at::Tensor x = at::zeros({3}), y = at::full({2, 2}, 10), view = x.slice(0, 1);
  const TensorQueue results(2, "results");
  const std::string text("any\0bytes\xff", 10);
  spawn(kAddToOwn, 2,
        {.arguments = {.tensors = {x, y}, .queues = {results}, .text = text}, .timeout = kLong});
  EXPECT_TRUE(x.equal(at::full({3}, 1.0f)));
  EXPECT_TRUE(view.equal(at::full({2}, 1.0f)));
  EXPECT_TRUE(y.equal(at::full({2, 2}, 12)));
  int64_t sum = 0;
  for (int i = 0; i < 2; ++i) {
    const TensorQueue::Item item = results.get(kLong);
    EXPECT_EQ(item.text, text);
    sum += item.tensors.at(0).sum().item<int64_t>();
  }
  EXPECT_EQ(sum, 3);
}

// Sent with 300 tensors; without it, 301 tensors are sent.
const std::string kLongText(1'000'000, 'x');

void count_all(int index, SpawnArguments& arguments) {
  const std::size_t count = arguments.tensors.size();
  TORCH_CHECK(count == 300 || count == 301, "there are ", count);
  for (std::size_t i = 0; i < arguments.tensors.size(); ++i) {
    at::Tensor& tensor = arguments.tensors[i];
    TORCH_CHECK(tensor.select(0, 2).item<int64_t>() == static_cast<int64_t>(i), "tensor ", i);
    tensor[index] = static_cast<int64_t>(i) + 1;
  }
  TORCH_CHECK(arguments.text == (count == 300 ? kLongText : ""), "the text is wrong");
}
const SpawnFunction kCountAll("count all", count_all);

TEST(SpawnTest, SendsHundredsOfTensorsWithAndWithoutALongText) {
  for (const int count : {300, 301}) {
    std::vector<at::Tensor> tensors;
    for (int i = 0; i < count; ++i) tensors.push_back(at::full({3}, i));
    spawn(kCountAll, 2,
          {.arguments = {.tensors = tensors, .text = count == 300 ? kLongText : ""},
           .timeout = kLong});
    for (int i = 0; i < count; ++i) {
      EXPECT_TRUE(tensors[static_cast<std::size_t>(i)].slice(0, 0, 2).equal(at::full({2}, i + 1)));
    }
  }
}

extern const SpawnFunction kNest;

void nest(int index, SpawnArguments& arguments) {
  const at::Tensor& places = arguments.tensors.at(0);
  if (places.dim() == 1) {
    places.select(0, index).add_(1);
    return;
  }
  spawn(kNest, 2, {.arguments = {.tensors = {places.select(0, index)}}, .timeout = kLong});
}
const SpawnFunction kNest("nest", nest);

TEST(SpawnTest, SpawnedProcessCanSpawn) {
  const at::Tensor places = at::zeros({2, 2});
  spawn(kNest, 2, {.arguments = {.tensors = {places}}, .timeout = kLong});
  EXPECT_TRUE(places.equal(at::full({2, 2}, 1.0f)));
}

void print(int, SpawnArguments&) {
  std::printf("by printf, ");
  std::cout << "and by cout";
}
const SpawnFunction kPrint("print", print);

TEST(SpawnTest, FlushesWhatAProcessPrinted) {
  ::testing::internal::CaptureStdout();
  spawn(kPrint, 1, {.timeout = kLong});
  const std::string said = ::testing::internal::GetCapturedStdout();
  EXPECT_THAT(said, HasSubstr("by printf, "));
  EXPECT_THAT(said, HasSubstr("and by cout"));
}

constexpr int kParentsDescriptor = 200;

void look_around(int, SpawnArguments& arguments) {
  const std::string command = proc_file(::getpid(), "cmdline");
  TORCH_CHECK(command + process_name(::getpid()) == arguments.text, "it is another program");
  char byte;
  TORCH_CHECK(::read(STDIN_FILENO, &byte, 1) == 0, "stdin is not empty");
  TORCH_CHECK(::fcntl(kParentsDescriptor, F_GETFD) == -1, "a descriptor of the parent is open");
  TORCH_CHECK(std::getenv("DISTRUN_SPAWNED") == nullptr,
              "its children would be taken for spawned processes");
}
const SpawnFunction kLookAround("look around", look_around);

TEST(SpawnTest, ProcessRunsTheSameCommandAndInheritsOnlyWhatItShould) {
  ASSERT_EQ(::dup2(STDERR_FILENO, kParentsDescriptor), kParentsDescriptor);
  const UniqueFd closer(kParentsDescriptor);
  const std::string command = proc_file(::getpid(), "cmdline") + process_name(::getpid());
  spawn(kLookAround, 1, {.arguments = {.text = command}, .timeout = kLong});
}

void do_nothing(int, SpawnArguments&) {}
const SpawnFunction kTwin("twin", do_nothing);
const SpawnFunction kOtherTwin("twin", do_nothing);

TEST(SpawnTest, RefusesAFunctionThatTheProcessDoesNotKnow) {
  const SpawnFunction local("local", do_nothing);
  const auto raised =
      exception_of<ProcessRaisedException>([&] { spawn(local, 1, {.timeout = kLong}); });
  EXPECT_EQ(raised.type(), "c10::ValueError");
  EXPECT_EQ(raised.text(),
            "no SpawnFunction is named 'local' in this process: define it at namespace scope");
}

TEST(SpawnTest, RefusesInvalidArguments) {
  const auto text = [](const auto& call) {
    return std::string(exception_of<c10::ValueError>(call).what_without_backtrace());
  };
  EXPECT_EQ(text([] { spawn(kPrint, 0); }), "spawn: nprocs is 0; expected 1 or more");
  EXPECT_EQ(text([] { spawn(kPrint, -2); }), "spawn: nprocs is -2; expected 1 or more");
  EXPECT_EQ(text([] { spawn(kTwin); }),
            "several SpawnFunctions are named 'twin': give each a different name");
  EXPECT_EQ(text([] { spawn([](int) {}, 2, {}); }),
            "spawn: a function that is not registered as a SpawnFunction can only be forked: use "
            "StartMethod::kFork");
  const SpawnOptions forked{.start_method = StartMethod::kFork};
  const auto empty = "spawn: the function is empty; expected one to call";
  EXPECT_EQ(text([&] { spawn(std::function<void(int)>(), 2, forked); }), empty);
  EXPECT_EQ(text([] { spawn(SpawnFunction("empty", nullptr)); }), empty);
  EXPECT_EQ(text([] { spawn(kPrint, 1, {.timeout = std::chrono::milliseconds(-5)}); }),
            "spawn: a time is -5 ms; expected 0 or more");
  EXPECT_EQ(text([] { spawn(kPrint, 1, {.grace_period = std::chrono::milliseconds(-5)}); }),
            "spawn: a time is -5 ms; expected 0 or more");
}

std::string output_of(const std::string& command) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(command.c_str(), "r"), ::pclose);
  std::string output;
  std::array<char, 256> bytes;
  while (const std::size_t size = std::fread(bytes.data(), 1, bytes.size(), pipe.get())) {
    output.append(bytes.data(), size);
  }
  return output;
}

TEST(SpawnTest, ReportsAMainThatDoesNotCallRunIfSpawned) {
  EXPECT_THAT(
      output_of(SPAWN_WITHOUT_CALL),
      MatchesRegex("spawn: spawn\\(\\) started this process, which would start "
                   "itself forever: main\\(\\) must call run_if_spawned\\(\\) "
                   "first\nprocess 0 \\(pid [0-9]+\\) ended with exit code 3 before it started: "
                   "main\\(\\) must call run_if_spawned\\(\\) first\n"));
}

std::string output_of_mode(const std::string& mode) {
  return output_of(SPAWN_WITHOUT_CALL " " + mode);
}

TEST(SpawnTest, TimeoutCoversProcessesThatDoNotTakeTheirArguments) {
  EXPECT_EQ(output_of_mode("late"), "process 0 has not ended within 500 ms\n");
}

TEST(SpawnTest, SeesAFailureWhileAnotherProcessDoesNotTakeItsArguments) {
  const testing::Folder folder;
  EXPECT_THAT(output_of_mode("'one late' " + folder.path() + "/first"),
              MatchesRegex("process [01] \\(pid [0-9]+\\) ended with exit code 5 before it "
                           "started: main\\(\\) must call run_if_spawned\\(\\) first\n"));
}

TEST(SpawnTest, ReportsWhyAProcessCannotTakeItsArguments) {
  EXPECT_THAT(output_of_mode("limited"),
              MatchesRegex("process 0 \\(pid [0-9]+\\) raised c10::Error: take over arguments: "
                           "receive a packet: no descriptors are left: raise `ulimit -n`\n"));
}

TEST(SpawnTest, ClosedStandardDescriptorsAreNotReused) {
  EXPECT_EQ(output_of_mode("closed"), "it succeeded, and the tensor is unchanged\n");
  EXPECT_EQ(output_of_mode("'closed, fork'"), "it succeeded, and the tensor is unchanged\n");
}

TEST(SpawnTest, ProgramsFileMayBeDeleted) {
  const testing::Folder folder;
  const std::string program = folder.path() + "/program";
  std::filesystem::copy_file(SPAWN_WITHOUT_CALL, program);
  EXPECT_EQ(output_of(program + " unlinked"), "process 0 was told hello\n");
  EXPECT_FALSE(std::filesystem::exists(program));
}

}  // namespace
}  // namespace distrun

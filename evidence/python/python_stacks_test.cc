#include "evidence/python/python_stacks.h"

#include <array>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace distrun {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::uint64_t kBegin = 0x10000;

// The readable memory of a process.
class Memory {
 public:
  template <class T>
  void put(std::uint64_t address, T value) {
    std::memcpy(&bytes_.at(address - kBegin), &value, sizeof(value));
  }
  void put_bytes(std::uint64_t address, std::string_view text) {
    std::memcpy(&bytes_.at(address - kBegin), text.data(), text.size());
  }
  ReadMemory reader() const {
    return [this](std::uint64_t address, void* into, std::size_t size) {
      if (address < kBegin || address - kBegin + size > bytes_.size()) return false;
      std::memcpy(into, &bytes_[address - kBegin], size);
      return true;
    };
  }

 private:
  std::vector<std::uint8_t> bytes_ = std::vector<std::uint8_t>(0x10000);
};

constexpr std::uint64_t kRuntime = kBegin, kInterpreter = kBegin + 0x2000,
                        kThread = kBegin + 0x3000, kFrame = kBegin + 0x4000,
                        kCaller = kBegin + 0x4100, kCode = kBegin + 0x5000, kName = kBegin + 0x6000,
                        kFile = kBegin + 0x6200, kTable = kBegin + 0x6400;
constexpr std::uint64_t kPthread = 0x7f0000001000;

void put_text(Memory& memory, const PythonLayout& at, std::uint64_t address,
              std::string_view text) {
  const std::uint32_t kind = 1, compact = 1 << 3, ascii = 1 << 4;
  memory.put<std::uint64_t>(address + at.length, text.size());
  memory.put<std::uint32_t>(address + at.state, (kind | compact | ascii) << at.interned_bits);
  memory.put_bytes(address + at.ascii_bytes, text);
}

// One thread in `train`, at the second line of its code, which calls itself once.
void put_program(Memory& memory, const PythonLayout& at) {
  memory.put(kRuntime + at.interpreters_head, kInterpreter);
  memory.put(kInterpreter + at.threads_head, kThread);
  memory.put(kThread + at.thread_id, kPthread);
  memory.put(kThread + at.current_frame, kFrame);
  memory.put(kFrame + at.previous, kCaller);
  for (const std::uint64_t frame : {kFrame, kCaller}) {
    memory.put(frame + at.code, kCode);
    memory.put(frame + at.instruction, kCode + *at.instructions + 2);
  }
  memory.put(kCode + at.name, kName);
  memory.put(kCode + at.filename, kFile);
  memory.put(kCode + at.line_table, kTable);
  memory.put<std::int32_t>(kCode + at.first_line, 10);
  put_text(memory, at, kName, "train");
  put_text(memory, at, kFile, "train.py");
  memory.put<std::uint64_t>(kTable + at.bytes_size, 4);
  memory.put<std::uint32_t>(kTable + at.bytes_value, 0x02e8'02e8);  // Twice: one line later.
}

// A Python that describes itself, as 3.14 does.
void put_description(Memory& memory) {
  std::array<std::uint64_t, 128> number{};
  std::memcpy(number.data(), "xdebugpy", 8);
  const std::initializer_list<std::pair<int, std::uint64_t>> described = {
      {5, 2000}, {8, 16},  {9, 24},  {24, 8},   {27, 40},  {26, 48},  {32, 8},
      {33, 0},   {34, 56}, {36, 70}, {40, 112}, {42, 128}, {43, 136}, {44, 68},
      {48, 200}, {75, 16}, {76, 32}, {78, 32},  {79, 16},  {80, 40}};
  for (const auto& [place, value] : described) number.at(static_cast<std::size_t>(place)) = value;
  memory.put(kRuntime, number);
}

class PythonStacksTest : public ::testing::Test {
 protected:
  PythonStacksTest() {
    put_description(memory_);
    at_ = *python_layout(memory_.reader(), kRuntime, {3, 14});
    put_program(memory_, at_);
  }
  std::vector<Frame> frames() const {
    return python_stacks(memory_.reader(), kRuntime, at_).at(kPthread);
  }

  Memory memory_;
  PythonLayout at_;
};

TEST_F(PythonStacksTest, ReadsTheFramesOfAPythonThatDescribesItself) {
  const Frame train{.function = "train", .source = "train.py", .line = 12};
  EXPECT_THAT(frames(), ElementsAre(train, train));
}

TEST_F(PythonStacksTest, IgnoresMarksInReferences) {
  memory_.put(kFrame + at_.code, kCode | 1);
  EXPECT_EQ(frames().size(), 2U);
}

TEST_F(PythonStacksTest, SkipsFramesOfTheInterpreter) {
  memory_.put<std::int8_t>(kFrame + *at_.owner, 3);
  EXPECT_EQ(frames().size(), 1U);
}

TEST_F(PythonStacksTest, EndsInACircleOfFrames) {
  memory_.put(kCaller + at_.previous, kFrame);
  EXPECT_EQ(frames().size(), 256U);
}

TEST_F(PythonStacksTest, SkipsWhatCannotBeRead) {
  memory_.put(kFrame + at_.code, std::uint64_t{8});
  EXPECT_EQ(frames().size(), 1U);
  memory_.put(kThread + at_.current_frame, std::uint64_t{0xfff0000000000008});
  EXPECT_THAT(frames(), IsEmpty());
}

TEST_F(PythonStacksTest, RejectsAVersionWithAnotherLayout) {
  EXPECT_FALSE(python_layout(memory_.reader(), kRuntime, {3, 13}));
  EXPECT_FALSE(python_layout(memory_.reader(), kRuntime, {3, 15}));
  EXPECT_FALSE(python_layout(memory_.reader(), kRuntime, {2, 7}));
  memory_.put_bytes(kRuntime, "no");
  EXPECT_FALSE(python_layout(memory_.reader(), kRuntime, {3, 14}));
}

TEST(PythonVersionTest, IsReadFromTheHexadecimalNumber) {
  EXPECT_EQ(python_version(0x030b07f0).major, 3);
  EXPECT_EQ(python_version(0x030b07f0).minor, 11);
}

}  // namespace
}  // namespace distrun

#include "recording/recording.h"

#include <filesystem>
#include <fstream>
#include <iterator>

#include <gtest/gtest.h>

#include "common/test/folder.h"
#include "recording/zip_file.h"

namespace distrun {
namespace {

using testing::Folder;

struct Pieces {
  std::string all;  // "out:hello|err:oh|", neighbours on one stream joined.
  Printed last = Printed::kStderr;

  Result<void> take(Printed to, std::string_view bytes) {
    if (all.empty() || to != last) {
      all += std::string(all.empty() ? "" : "|") + (to == Printed::kStdout ? "out:" : "err:");
    }
    last = to;
    all += bytes;
    return {};
  }
};

class RecordingTest : public ::testing::Test {
 protected:
  RecordingWriter open() const {
    auto writer = RecordingWriter::open(path_);
    if (!writer) throw std::runtime_error(writer.error().message);
    return std::move(*writer);
  }

  static RecordingFacts facts() {
    RecordingFacts all;
    all.command = {"distrun"};
    all.rerun = {"distrun", "launch"};
    all.status = 3;
    return all;
  }

  static void expect_ok(const Result<void>& done) { EXPECT_TRUE(done) << done.error().message; }

  std::string printed() const {
    const auto recording = Recording::open(path_);
    if (!recording) return recording.error().message;
    Pieces pieces;
    const auto shown = recording->print(
        [&](Printed to, std::string_view bytes) { return pieces.take(to, bytes); });
    return shown ? pieces.all : pieces.all + "|" + shown.error().message;
  }

  const Folder folder_;
  const std::string path_ = folder_.path() + "/run.zip";
};

TEST_F(RecordingTest, PrintsTheSameBytesInTheSameOrder) {
  auto writer = open();
  writer.printed(Printed::kStdout, "one\n");
  writer.printed(Printed::kStdout, "two");
  writer.printed(Printed::kStderr, std::string_view("\xff\0\n", 3));
  writer.printed(Printed::kStderr, "");
  writer.printed(Printed::kStdout, "\n");
  expect_ok(writer.finish(facts()));
  EXPECT_EQ(printed(), "out:one\ntwo|err:" + std::string("\xff\0\n", 3) + "|out:\n");
}

TEST_F(RecordingTest, PrintsMoreThanItsBuffers) {
  auto writer = open();
  std::string out, err;
  for (int line = 0; line < 30'000; ++line) {
    const std::string text = "line " + std::to_string(line) + " of many\n";
    const bool to_err = line % 1'000 == 0;
    writer.printed(to_err ? Printed::kStderr : Printed::kStdout, text);
    (to_err ? err : out) += text;
  }
  expect_ok(writer.finish(facts()));
  const auto recording = Recording::open(path_);
  ASSERT_TRUE(recording) << recording.error().message;
  std::string read_out, read_err;
  expect_ok(recording->print([&](Printed to, std::string_view bytes) -> Result<void> {
    (to == Printed::kStdout ? read_out : read_err) += bytes;
    return {};
  }));
  EXPECT_TRUE(read_out == out);
  EXPECT_TRUE(read_err == err);
}

TEST_F(RecordingTest, KeepsFactsAndMembers) {
  auto writer = open();
  writer.add("events.jsonl", "a\n");
  writer.add("events.jsonl", "b\n");
  const auto path = writer.path_of("trace.json");
  ASSERT_TRUE(path) << path.error().message;
  std::FILE* const trace = std::fopen(path->c_str(), "w");
  ASSERT_NE(trace, nullptr);
  std::fputs("[]", trace);
  std::fclose(trace);
  expect_ok(writer.finish(facts()));
  const auto recording = Recording::open(path_);
  ASSERT_TRUE(recording) << recording.error().message;
  EXPECT_EQ(recording->facts().status, 3);
  EXPECT_GE(recording->facts().ended, recording->facts().began);
  EXPECT_EQ(*read_zip_member(path_, "events.jsonl", 100), "a\nb\n");
  EXPECT_EQ(*read_zip_member(path_, "trace.json", 100), "[]");
  EXPECT_EQ(printed(), "");
}

TEST_F(RecordingTest, LeavesNothingIfItIsNotFinished) {
  {
    auto writer = open();
    writer.printed(Printed::kStdout, std::string(1'000'000, 'x'));
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

TEST_F(RecordingTest, ReplacesAnOldFile) {
  for (const char* text : {"old", "new"}) {
    auto writer = open();
    writer.printed(Printed::kStdout, text);
    expect_ok(writer.finish(facts()));
  }
  EXPECT_EQ(printed(), "out:new");
}

TEST_F(RecordingTest, OtherZipFilesAreErrors) {
  ZipWriter zip(path_);
  zip.add("a.txt", "x");
  expect_ok(zip.finish());
  EXPECT_EQ(printed(), path_ + ": is not a recording of distrun");
}

TEST_F(RecordingTest, AWrongOrderIsAnError) {
  for (const std::string order :
       {"{\"to\": \"stdout\", \"bytes\": 9}\n", "{}\n", "x\n", "",
        "{\"to\": \"stdout\", \"bytes\": 4}\n", "{\"to\": \"stdout\", \"bytes\": 5}",
        "{\"to\": \"stdin\", \"bytes\": 1}\n"}) {
    ZipWriter zip(path_);
    zip.add("recording.json", recording_json(facts()));
    zip.add("stdout", "hello");
    zip.add("stderr", "");
    zip.add("output.jsonl", order);
    expect_ok(zip.finish());
    const std::string all = printed();
    EXPECT_TRUE(all.ends_with("|" + path_ + ": is damaged, in output.jsonl")) << all;
  }
}

TEST_F(RecordingTest, DamagedOutputIsAnError) {
  auto writer = open();
  writer.printed(Printed::kStdout, "hello world");
  expect_ok(writer.finish(facts()));
  std::ifstream file(path_);
  std::string bytes{std::istreambuf_iterator<char>(file), {}};
  const auto at = bytes.find("stdout") + 6 + 3;  // Behind the name: compressed bytes.
  bytes[at] = static_cast<char>(bytes[at] ^ 1);
  std::ofstream(path_) << bytes;
  const std::string all = printed();
  EXPECT_NE(all.find(path_ + ": is damaged, in stdout"), std::string::npos) << all;
}

TEST_F(RecordingTest, AMissingStreamIsAnError) {
  ZipWriter zip(path_);
  zip.add("recording.json", recording_json(facts()));
  expect_ok(zip.finish());
  EXPECT_EQ(printed(), "|" + path_ + ": is damaged, in output.jsonl");
}

TEST_F(RecordingTest, StopsAtTheFirstErrorOfThePrinter) {
  auto writer = open();
  writer.printed(Printed::kStdout, "one");
  writer.printed(Printed::kStderr, "two");
  expect_ok(writer.finish(facts()));
  const auto recording = Recording::open(path_);
  ASSERT_TRUE(recording) << recording.error().message;
  int calls = 0;
  const auto shown = recording->print([&](Printed, std::string_view) -> Result<void> {
    ++calls;
    return Error{ErrorKind::kSystem, "the reader has gone"};
  });
  ASSERT_FALSE(shown);
  EXPECT_EQ(shown.error().message, "the reader has gone");
  EXPECT_EQ(calls, 1);
}

TEST_F(RecordingTest, AMissingFolderIsAnErrorBeforeTheRun) {
  const auto writer = RecordingWriter::open("/nowhere/run.zip");
  ASSERT_FALSE(writer);
  EXPECT_EQ(writer.error().message, "--record: write /nowhere/run.zip: no such file or directory");
}

}  // namespace
}  // namespace distrun

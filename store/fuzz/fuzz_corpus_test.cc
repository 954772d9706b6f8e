// What fuzzing has once found, and what it starts from: see store/fuzz/store_fuzz.cc.
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <gtest/gtest.h>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace distrun {
namespace {

constexpr char kCorpus[] = DISTRUN_SOURCE_DIR "/store/fuzz/corpus";

// Each in a process of its own, so that a failure names the file.
TEST(StoreFuzzCorpusTest, EveryInputOfTheCorpusLeavesTheStoreSound) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kCorpus)) {
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string input{std::istreambuf_iterator<char>(file), {}};
    EXPECT_EXIT(
        {
          LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
          std::_Exit(0);
        },
        ::testing::ExitedWithCode(0), "")
        << entry.path();
    ++files;
  }
  EXPECT_GT(files, 0) << kCorpus << " is empty";
}

}  // namespace
}  // namespace distrun

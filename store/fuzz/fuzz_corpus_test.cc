// Runs the fuzz target on its corpus: seeds, and inputs that fuzzing found.
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

// One process per input, so that a failure names the file.
TEST(StoreFuzzCorpusTest, EveryInputKeepsTheStoreConsistent) {
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

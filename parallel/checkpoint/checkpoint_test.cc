// Checkpoints of one process, and their files.
#include "distrun/checkpoint.h"

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <ATen/Functions.h>
#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <unistd.h>

#include "common/os/unique_fd.h"
#include "parallel/checkpoint/box.h"
#include "parallel/checkpoint/checkpoint_file.h"
#include "parallel/checkpoint/checkpoint_index.h"
#include "parallel/checkpoint/safetensors.h"
#include "parallel/checkpoint/test/checkpoint_fixture.h"

namespace distrun {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

class CheckpointTest : public CheckpointFixture {};

TEST_F(CheckpointTest, LoadsTheTensorsThatItHasSaved) {
  const std::vector<std::pair<std::string, at::Tensor>> saved = {
      {"float", at::rand({3, 4})},
      {"transposed", at::rand({3, 4}).t()},
      {"half", at::rand({5}).to(at::kHalf)},
      {"bfloat16", at::rand({5}).to(at::kBFloat16)},
      {"double", at::rand({2}, at::kDouble)},
      {"complex", at::rand({2}).to(at::kComplexFloat)},
      {"bool", at::rand({7}) > 0.5},
      {"step", at::full({}, 17, at::kLong)},
      {"empty", at::zeros({0, 3})}};
  save_checkpoint(path_, state_of(saved));
  std::vector<std::pair<std::string, at::Tensor>> loaded;
  for (const auto& [name, tensor] : saved) loaded.emplace_back(name, at::zeros_like(tensor));
  CheckpointState state = state_of(loaded);
  load_checkpoint(path_, state);
  for (std::size_t i = 0; i < saved.size(); ++i) {
    EXPECT_TRUE(loaded[i].second.equal(saved[i].second)) << saved[i].first;
  }
}

TEST_F(CheckpointTest, AModuleHasItsParametersAndBuffers) {
  const auto net = [] {
    return torch::nn::Sequential(torch::nn::Linear(3, 4), torch::nn::BatchNorm1d(4));
  };
  auto saved = net(), loaded = net();
  saved->forward(at::rand({5, 3}));  // Changes the buffers.
  CheckpointState of_saved, of_loaded;
  of_saved.add_module(*saved, "net.");
  of_loaded.add_module(*loaded, "net.");
  EXPECT_EQ(of_saved.parts().front().name, "net.0.weight");
  save_checkpoint(path_, of_saved);
  load_checkpoint(path_, of_loaded);
  for (const auto& one : saved->named_parameters()) {
    EXPECT_TRUE(loaded->named_parameters()[one.key()].equal(one.value())) << one.key();
  }
  for (const auto& one : saved->named_buffers()) {
    EXPECT_TRUE(loaded->named_buffers()[one.key()].equal(one.value())) << one.key();
  }
}

// One parameter with two names, as of an embedding and the last layer.
struct Tied : torch::nn::Module {
  at::Tensor weight = register_parameter("embedding", at::rand({3, 4}));
  Tied() { register_parameter("last", weight); }
};

TEST_F(CheckpointTest, ASharedParameterIsSavedByEachNameAndLoadedByOne) {
  Tied saved, loaded;
  CheckpointState of_saved, of_loaded;
  of_saved.add_module(saved);
  of_loaded.add_module(loaded);
  save_checkpoint(path_, of_saved);
  for (const std::string name : {"embedding", "last"}) {
    const at::Tensor one = at::zeros({3, 4});
    CheckpointState state = state_of({{name, one}});
    load_checkpoint(path_, state);
    EXPECT_TRUE(one.equal(saved.weight)) << name;
    // As other programs write it, which keep one of the names.
    const at::Tensor only = at::rand({3, 4});
    save_checkpoint(path_ + "-only", state_of({{name, only}}));
    load_checkpoint(path_ + "-only", of_loaded);
    EXPECT_TRUE(loaded.weight.equal(only)) << name;
  }
  save_checkpoint(path_, state_of({{"other", at::zeros({3, 4})}}));
  EXPECT_THAT(error_of([&] { load_checkpoint(path_, of_loaded); }),
              HasSubstr(path_ + " has no 'embedding'"));
  // Two tensors are not one, also if they share memory in part.
  const at::Tensor memory = at::zeros({5});
  save_checkpoint(path_, state_of({{"x", at::zeros({4})}}));
  CheckpointState overlapping =
      state_of({{"x", memory.narrow(0, 0, 4)}, {"y", memory.narrow(0, 1, 4)}});
  EXPECT_THAT(error_of([&] { load_checkpoint(path_, overlapping); }),
              HasSubstr(path_ + " has no 'y'"));
}

// Large enough for several blocks of checksums, of which one row needs one.
TEST_F(CheckpointTest, APartOfATensorIsReadFromItsBlocksOnly) {
  const at::Tensor whole = at::rand({16, 65536});  // 4 MiB
  save(whole);
  std::string bytes = bytes_of(file_);
  bytes.back() ^= 1;
  write(file_, bytes);
  const at::Tensor row = at::zeros({1, 65536});
  CheckpointState state;
  state.add_part({"x", {16, 65536}, {3, 0}, row});
  load_checkpoint(path_, state);
  EXPECT_TRUE(row[0].equal(whole[3]));
  EXPECT_THAT(error_of([&] { load(whole); }), HasSubstr("is damaged"));
  CheckpointState last;
  last.add_part({"x", {16, 65536}, {15, 0}, row});
  EXPECT_THAT(error_of([&] { load_checkpoint(path_, last); }), HasSubstr("is damaged"));
}

// Of rows with 4 MiB, 16 are read at a time.
TEST_F(CheckpointTest, APartOfALargeTensorIsReadAFewRowsAtATime) {
  constexpr std::int64_t kRows = 20, kColumns = 1 << 20;
  const at::Tensor whole = at::arange(kRows * kColumns, at::kFloat).view({kRows, kColumns});
  save(whole);
  const at::Tensor part = at::zeros({18, 5});
  CheckpointState state;
  state.add_part({"x", {kRows, kColumns}, {1, 1000}, part});
  load_checkpoint(path_, state);
  EXPECT_TRUE(part.equal(whole.slice(0, 1, 19).slice(1, 1000, 1005)));
}

// As by another program. The memory of a mapped file would be gone, which kills a process.
TEST_F(CheckpointTest, NamesAFileThatIsTruncatedAfterItIsOpened) {
  const at::Tensor whole = at::rand({16, 65536});  // 4 MiB
  save(whole);
  const auto records = internal::parse_index(bytes_of(path_ + "/checkpoint.json"));
  internal::CheckpointFile file(file_, records.value().at(0));
  fs::resize_file(file_, 2 << 20);
  EXPECT_EQ(
      error_of([&] {
        file.read(file.entries().at(0), internal::whole_box({16, 65536}), at::empty_like(whole));
      }),
      file_ + " is damaged: it has 2097152 bytes; expected " +
          std::to_string(records.value().at(0).bytes));
}

// With many open files, a file is opened again for each read.
TEST_F(CheckpointTest, NamesAFileThatIsReplacedAfterItIsOpened) {
  const at::Tensor whole = at::rand({4}), target = at::zeros({4});
  save(whole);
  std::vector<UniqueFd> many;
  for (int i = 0; i < 300; ++i) many.emplace_back(::dup(STDERR_FILENO));
  internal::CheckpointFile file(file_, std::nullopt);
  const auto read = [&] { file.read(file.entries().at(0), internal::whole_box({4}), target); };
  EXPECT_EQ(error_of(read), "no error");
  EXPECT_TRUE(target.equal(whole));
  fs::rename(file_, file_ + "-moved");
  fs::copy_file(file_ + "-moved", file_);
  EXPECT_EQ(error_of(read), "cannot read " + file_ + ": another file has taken its place");
}

// A name that is longer than a block of checksums.
TEST_F(CheckpointTest, EachBlockOfALongHeaderIsChecked) {
  constexpr std::size_t kBlock = 1 << 20;
  const std::string name(kBlock + 1000, 'x');
  save_checkpoint(path_, state_of({{name, at::ones({4})}}));
  std::string bytes = bytes_of(file_);
  bytes[kBlock + 500] = 'y';
  write(file_, bytes);
  CheckpointState state = state_of({{name, at::zeros({4})}});
  const std::string error = error_of([&] { load_checkpoint(path_, state); });
  EXPECT_NE(error.find("is damaged: the checksum of bytes 1048576 to "), std::string::npos);
}

TEST_F(CheckpointTest, ConvertsToTheDtypeOfTheState) {
  save(at::full({4}, 1.5));
  EXPECT_TRUE(load(at::zeros({4}, at::kHalf)).equal(at::full({4}, 1.5, at::kHalf)));
}

TEST_F(CheckpointTest, TensorsThatTheStateLacksAreLeftOut) {
  save_checkpoint(path_, state_of({{"x", at::ones({4})}, {"y", at::ones({9})}}));
  EXPECT_TRUE(load(at::zeros({4})).equal(at::ones({4})));
}

TEST_F(CheckpointTest, ValuesThatAreConjugatedLaterAreSavedAsTheyAre) {
  const at::Tensor values = at::complex(at::rand({3}), at::rand({3}));
  save(values.conj());
  EXPECT_TRUE(load(values).equal(values.conj().resolve_conj()));
  save(at::imag(values.conj()));  // Is negated later.
  EXPECT_TRUE(load(at::zeros({3})).equal(-at::imag(values)));
}

TEST_F(CheckpointTest, NamesTheFileThatIsDamaged) {
  save(at::arange(4, at::kFloat));
  const std::string good = bytes_of(file_);
  for (std::size_t i = 0; i < good.size(); ++i) {  // Each byte, also those of the header.
    std::string bytes = good;
    bytes[i] ^= 4;
    write(file_, bytes);
    EXPECT_THAT(error_of_load(),
                AllOf(HasSubstr("load_checkpoint: rank 0: " + file_ + " is damaged: "),
                      HasSubstr("checksum")));
  }
  write(file_, good.substr(0, good.size() - 1));
  EXPECT_EQ(error_of_load(), "load_checkpoint: rank 0: " + file_ + " is damaged: it has " +
                                 std::to_string(good.size() - 1) + " bytes; expected " +
                                 std::to_string(good.size()));
  std::remove(file_.c_str());
  EXPECT_EQ(error_of_load(),
            "load_checkpoint: rank 0: cannot read " + file_ + ": No such file or directory");
}

TEST_F(CheckpointTest, NamesAnIndexThatIsDamaged) {
  save(at::ones({4}));
  const std::string index = path_ + "/checkpoint.json";
  const std::string good = bytes_of(index);
  write(index, good.substr(0, 40));
  const auto damaged = HasSubstr("load_checkpoint: rank 0: " + index + " is damaged: ");
  EXPECT_THAT(error_of_load(), damaged);
  // As after a power failure, with and without the size.
  write(index, "");
  EXPECT_THAT(error_of_load(), damaged);
  write(index, std::string(4096, '\0'));
  EXPECT_THAT(error_of_load(), damaged);
  write(index, '\0' + good);
  EXPECT_THAT(error_of_load(), damaged);
  std::string zeros_within = good;
  zeros_within.replace(30, 10, 10, '\0');
  write(index, zeros_within);
  EXPECT_THAT(error_of_load(), damaged);
  write(index, good);
  EXPECT_EQ(error_of_load(), "no error");
}

TEST_F(CheckpointTest, NamesACheckpointOfANewerDistrun) {
  save(at::ones({4}));
  const std::string index = path_ + "/checkpoint.json";
  std::string text = bytes_of(index);
  text.replace(text.find("\"version\": 1"), 12, "\"version\": 2");
  write(index, text);
  const std::string problem =
      "a newer distrun has written it in format 2, and this distrun reads formats up to 1; update "
      "distrun";
  EXPECT_EQ(error_of_load(), "load_checkpoint: rank 0: " + path_ + ": " + problem);
  EXPECT_EQ(error_of([&] { save(at::ones({4})); }),
            "save_checkpoint: rank 0: cannot replace " + path_ + ": " + problem);
}

// The first rank reads the index from a pipe. When it has opened the pipe, the index is already the
// one of the new checkpoint, but the pipe contains the old one.
TEST_F(CheckpointTest, SaysThatACheckpointIsReplacedWhileItIsLoaded) {
  const std::string index = path_ + "/checkpoint.json";
  for (const int size : {4, 5}) {  // With files of the same sizes, and of others.
    save(at::zeros({4}));
    const std::string old = bytes_of(index);
    save(at::ones({size}));
    fs::rename(index, index + "-new");
    ASSERT_EQ(::mkfifo(index.c_str(), 0600), 0);
    std::thread other([&] {
      std::ofstream pipe(index, std::ios::binary);
      fs::rename(index + "-new", index);
      pipe << old;
    });
    EXPECT_EQ(error_of_load(), "load_checkpoint: " + path_ +
                                   " has changed while it was being loaded; load it again");
    other.join();
    EXPECT_TRUE(load(at::zeros({size})).equal(at::ones({size})));
  }
}

TEST_F(CheckpointTest, LoadsFilesOfOtherPrograms) {
  std::vector<internal::SafetensorsEntry> entries = {
      {.name = "x", .dtype = at::kFloat, .box = internal::whole_box({4})}};
  internal::place_entries(entries);
  const at::Tensor values = at::rand({4});
  const std::string bytes = internal::safetensors_header(entries) +
                            std::string(static_cast<const char*>(values.const_data_ptr()), 16);
  fs::create_directories(path_);
  write(path_ + "/model.safetensors", bytes);
  EXPECT_TRUE(load(values).equal(values));
  CheckpointState state;
  const at::Tensor target = at::zeros({4});
  state.add("x", target);
  load_checkpoint(path_ + "/model.safetensors", state);
  EXPECT_TRUE(target.equal(values));
  write(path_ + "/copy.safetensors", bytes);
  EXPECT_EQ(error_of_load(), "load_checkpoint: rank 0: " + path_ + " has elements of 'x' twice");
  std::string unknown = bytes;
  unknown.replace(unknown.find("F32"), 3, "Q32");
  std::remove((path_ + "/copy.safetensors").c_str());
  write(path_ + "/model.safetensors", unknown);
  EXPECT_EQ(error_of_load(),
            "load_checkpoint: rank 0: 'x' has in " + path_ + " a dtype that is not supported");
  entries[0].box.sizes = {8};
  entries[0].box.offsets = {4};
  internal::place_entries(entries);
  write(path_ + "/model.safetensors", internal::safetensors_header(entries) + std::string(32, 'x'));
  const at::Tensor half = at::zeros({12});
  CheckpointState all = state_of({{"x", half}});
  EXPECT_EQ(error_of([&] { load_checkpoint(path_, all); }),
            "load_checkpoint: rank 0: " + path_ + " has 8 of the 12 elements of 'x' on this rank");
  write(path_ + "/model.safetensors", bytes.substr(0, bytes.size() - 1));
  EXPECT_EQ(error_of_load(), "load_checkpoint: rank 0: " + path_ +
                                 "/model.safetensors is damaged: 'x': its data is not in the file");
  write(path_ + "/model.safetensors", "x");
  EXPECT_THAT(error_of_load(), HasSubstr("is damaged: it is too short for a safetensors file"));
}

TEST_F(CheckpointTest, NamesWhatTheCheckpointLacks) {
  EXPECT_EQ(error_of_load(), "load_checkpoint: rank 0: " + path_ + " does not exist");
  CheckpointState none;
  EXPECT_EQ(error_of([&] { load_checkpoint("", none); }),
            "load_checkpoint: rank 0: '' does not exist");
  fs::create_directories(path_);
  EXPECT_EQ(error_of_load(), "load_checkpoint: rank 0: " + path_ +
                                 " is not a checkpoint: it has neither checkpoint.json nor "
                                 "safetensors files");
  save(at::ones({5}));
  EXPECT_EQ(error_of_load(),
            "load_checkpoint: rank 0: 'x' has sizes [5] in " + path_ + "; expected [4]");
  EXPECT_THAT(error_of([&] {
                CheckpointState expanded = state_of({{"x", at::zeros({1}).expand({5})}});
                load_checkpoint(path_, expanded);
              }),
              HasSubstr("'x' is an expanded tensor, which cannot be loaded; use contiguous()"));
  save_checkpoint(path_, state_of({{"y", at::ones({4})}}));
  EXPECT_EQ(error_of_load(), "load_checkpoint: rank 0: " + path_ + " has no 'x'");
}

TEST_F(CheckpointTest, NamesWhatIsWrongWithAPart) {
  CheckpointState state;
  const auto error = [&](const CheckpointPart& part) {
    return error_of<c10::ValueError>([&] { state.add_part(part); });
  };
  EXPECT_EQ(error({"x", {4, 2}, {3, 0}, at::zeros({2, 2})}),
            "CheckpointState: the part of 'x' at [3, 0] with sizes [2, 2] is not within the sizes "
            "of the tensor, [4, 2]");
  EXPECT_THAT(error({"x", {4}, {0, 0}, at::zeros({4})}), HasSubstr("is not within the sizes"));
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  EXPECT_THAT(error({"x", {4}, {kMax}, at::zeros({2})}), HasSubstr("is not within the sizes"));
  EXPECT_THAT(error({"x", {-kMax}, {0}, at::zeros({2})}), HasSubstr("is not within the sizes"));
  EXPECT_EQ(error({"x", {1}, {0}, {}}), "CheckpointState: 'x' is an undefined tensor");
  EXPECT_EQ(error_of<c10::ValueError>([&] { state.add("x", {}); }),
            "CheckpointState: 'x' is an undefined tensor");
  EXPECT_EQ(error({"x", {1}, {0}, at::zeros({1}).to_sparse()}),
            "CheckpointState: 'x' is a Sparse tensor on cpu; expected a dense tensor that has "
            "values");
  EXPECT_EQ(error({"x", {1}, {0}, at::zeros({1}, at::kMeta)}),
            "CheckpointState: 'x' is a Strided tensor on meta; expected a dense tensor that has "
            "values");
  EXPECT_EQ(error({"x", {1}, {0}, at::zeros({1}, at::kComplexDouble)}),
            "CheckpointState: 'x' has dtype ComplexDouble, which safetensors files do not have");
  EXPECT_THAT(error({"\xff", {1}, {0}, at::zeros({1})}),
              HasSubstr("CheckpointState: the name '\uFFFD' is not valid UTF-8"));
  EXPECT_EQ(error({"__metadata__", {1}, {0}, at::zeros({1})}),
            "CheckpointState: '__metadata__' cannot be the name of a tensor");
  state.add("x", at::zeros({2}));
  EXPECT_EQ(error({"x", {2}, {0}, at::zeros({2})}),
            "CheckpointState: 'x' at [0] is added twice; use a prefix");
}

TEST(CheckpointIndexTest, RejectsIndexesOfOtherPrograms) {
  const auto problem = [](const std::string& text) {
    const auto index = internal::parse_index(text);
    return index ? "none" : index.error().message;
  };
  const std::string good = internal::index_text({{.name = "a", .bytes = 3, .checksums = {255}}});
  EXPECT_THAT(good, HasSubstr("\"00000000000000ff\""));
  EXPECT_EQ(problem(good), "none");
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    return text.replace(text.find(from), from.size(), to);
  };
  EXPECT_EQ(problem(with("distrun checkpoint", "other")), "it has another format");
  EXPECT_THAT(problem(with("\"version\": 1", "\"version\": 2")),
              HasSubstr("a newer distrun has written it in format 2"));
  for (const auto& [from, to] : {std::pair{"\"version\": 1", "\"version\": 0"},
                                 std::pair{"\"block_bytes\": 1", "\"block_bytes\": 2"}}) {
    EXPECT_EQ(problem(with(from, to)), "its version or its block_bytes is wrong");
  }
  EXPECT_EQ(problem(with("\"a\"", "\"../a\"")), "'../a' is not the name of a file");
  EXPECT_EQ(problem(with("00000000000000ff", "x")), "'x' is not a checksum");
}

}  // namespace
}  // namespace distrun

// Checkpoints of one process, and their files.
#include "distrun/checkpoint.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <c10/util/Exception.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <unistd.h>

#include "common/os/unique_fd.h"
#include "common/test/folder.h"
#include "parallel/checkpoint/checkpoint_folder.h"
#include "parallel/checkpoint/checkpoint_index.h"
#include "parallel/checkpoint/folder_lock.h"
#include "parallel/checkpoint/safetensors.h"

namespace {

// Called before a file is synced, with its path.
std::function<void(int fd, const std::string& file)> when_synced;

}  // namespace

// Takes the place of the C library's function in this program.
extern "C" int fsync(int fd) {
  if (when_synced) {
    when_synced(fd, std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(fd)).string());
  }
  return static_cast<int>(::syscall(SYS_fsync, fd));
}

namespace distrun {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

class CheckpointTest : public ::testing::Test {
 protected:
  static CheckpointState state_of(const std::vector<std::pair<std::string, at::Tensor>>& tensors) {
    CheckpointState state;
    for (const auto& [name, tensor] : tensors) state.add(name, tensor);
    return state;
  }
  void save(const at::Tensor& tensor) { save_checkpoint(path_, state_of({{"x", tensor}})); }
  at::Tensor load(const at::Tensor& like) {
    const at::Tensor target = at::zeros_like(like);
    CheckpointState state = state_of({{"x", target}});
    load_checkpoint(path_, state);
    return target;
  }
  template <class Error = c10::Error, class Act>
  static std::string error_of(const Act& act) {
    try {
      act();
    } catch (const Error& error) {
      return error.what_without_backtrace();
    }
    return "no error";
  }
  std::string error_of_load() {
    return error_of([&] { load(at::zeros({4})); });
  }
  std::vector<std::string> names_in(const std::string& folder) const {
    std::vector<std::string> names;
    for (const auto& one : fs::directory_iterator(folder)) {
      names.push_back(one.path().filename().string());
    }
    return names;
  }
  void write(const std::string& path, const std::string& bytes) const {
    std::ofstream(path, std::ios::binary) << bytes;
  }
  // Waits until another process writes a checkpoint, or until it does not.
  bool is_soon(bool saving) const {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (fs::exists(path_ + ".unfinished") != saving) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::yield();
    }
    return true;
  }
  std::string bytes_of(const std::string& path) const {
    std::ifstream file(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  }

  const testing::Folder folder_;
  const std::string path_ = folder_.path() + "/run/last";
  const std::string file_ = path_ + "/shard-00001-model-00001-of-00001.safetensors";
};

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

TEST_F(CheckpointTest, ReplacesAnOlderCheckpointAndLeavesNothingElse) {
  save(at::zeros({4}));
  save_checkpoint(path_ + "/", state_of({{"x", at::ones({4})}}));
  EXPECT_TRUE(load(at::zeros({4})).equal(at::ones({4})));
  EXPECT_THAT(names_in(folder_.path() + "/run"), ElementsAre("last"));
  EXPECT_THAT(names_in(path_), UnorderedElementsAre("checkpoint.json", fs::path(file_).filename()));
}

TEST_F(CheckpointTest, ValuesThatAreConjugatedLaterAreSavedAsTheyAre) {
  const at::Tensor values = at::complex(at::rand({3}), at::rand({3}));
  save(values.conj());
  EXPECT_TRUE(load(values).equal(values.conj().resolve_conj()));
  save(at::imag(values.conj()));  // Is negated later.
  EXPECT_TRUE(load(at::zeros({3})).equal(-at::imag(values)));
}

TEST_F(CheckpointTest, ALinkToACheckpointRemains) {
  save(at::zeros({4}));
  fs::create_directory_symlink(path_, path_ + "-link");
  save_checkpoint(path_ + "-link", state_of({{"x", at::ones({4})}}));
  EXPECT_TRUE(fs::is_symlink(path_ + "-link"));
  EXPECT_TRUE(load(at::zeros({4})).equal(at::ones({4})));
  fs::create_directory_symlink(path_ + "-none", path_ + "-dangling");
  EXPECT_THAT(error_of([&] { save_checkpoint(path_ + "-dangling", {}); }),
              HasSubstr("-dangling is a link to a path that does not exist"));
}

// As a killed process leaves it.
TEST_F(CheckpointTest, RemovesWhatAnInterruptedSaveHasLeft) {
  save(at::zeros({4}));
  fs::create_directory(path_ + ".unfinished");
  write(path_ + ".unfinished/shard-00001-model-00001-of-00001.safetensors", "half a file");
  fs::create_directory(path_ + ".unfinished-mine");
  EXPECT_TRUE(load(at::zeros({4})).equal(at::zeros({4})));
  save(at::ones({4}));
  EXPECT_THAT(names_in(folder_.path() + "/run"),
              UnorderedElementsAre("last", "last.unfinished-mine"));
}

TEST_F(CheckpointTest, ASaveToThePathOfASaveInProgressThrows) {
  const std::string in_progress = "save_checkpoint: rank 0: another save to " + path_ +
                                  " is in progress; wait until it ends, or save elsewhere";
  for (int round = 0; round < 2; ++round) {  // Without an old checkpoint, and with one.
    internal::FolderLock lock = internal::begin_checkpoint(path_);
    const std::string unfinished = internal::unfinished_name(path_);
    EXPECT_EQ(error_of([&] { save(at::ones({4})); }), in_progress);
    save_checkpoint(path_ + "-other", state_of({{"x", at::ones({4})}}));
    internal::commit_checkpoint(unfinished, path_, {});
    // It is in place, but the save has not ended: on some file systems it still has PATH.old.
    EXPECT_EQ(error_of([&] { save(at::ones({4})); }), in_progress);
    lock.release();
    save(at::ones({4}));
    EXPECT_TRUE(load(at::zeros({4})).equal(at::ones({4})));
  }
}

// A process that has started during the save, such as one that loads data, has its open files.
TEST_F(CheckpointTest, AForkedProcessDoesNotKeepASaveInProgress) {
  internal::FolderLock lock = internal::begin_checkpoint(path_);
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);
    for (;;) ::pause();
  }
  lock.release();
  EXPECT_EQ(error_of([&] { save(at::ones({4})); }), "no error");
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
}

TEST_F(CheckpointTest, AProcessThatIsKilledDoesNotKeepASaveInProgress) {
  int pipe[2];
  ASSERT_EQ(::pipe2(pipe, O_CLOEXEC), 0);
  const UniqueFd reader(pipe[0]), writer(pipe[1]);
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);
    const internal::FolderLock lock = internal::begin_checkpoint(path_);
    if (lock.is_held()) static_cast<void>(::write(writer.get(), "x", 1));
    for (;;) ::pause();
  }
  char byte = 0;
  EXPECT_EQ(::read(reader.get(), &byte, 1), 1);
  EXPECT_THAT(error_of([&] { save(at::ones({4})); }), HasSubstr("is in progress"));
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  save(at::ones({4}));
  EXPECT_THAT(names_in(folder_.path() + "/run"), ElementsAre("last"));
}

TEST_F(CheckpointTest, DoesNotRemoveAFolderThatNoSaveHasLeft) {
  const std::string unfinished = path_ + ".unfinished", to_do = "; remove it, or save elsewhere";
  fs::create_directories(unfinished);
  write(unfinished + "/thesis.txt", "years of work");
  EXPECT_EQ(error_of([&] { save(at::ones({4})); }),
            "save_checkpoint: rank 0: " + unfinished +
                " has thesis.txt, which is not part of an unfinished checkpoint" + to_do);
  EXPECT_EQ(bytes_of(unfinished + "/thesis.txt"), "years of work");
}

// Kills a process that saves 1, 2, 3, …, each time while it writes the folder of the next one.
TEST_F(CheckpointTest, AProcessThatIsKilledLeavesAWholeCheckpoint) {
  at::set_num_threads(1);  // A forked process has no pool of threads.
  save(at::zeros({100000}));
  double before = 0;
  for (int round = 0; round < 10; ++round) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(60);
      for (int value = 1;; ++value) save(at::full({100000}, before + value));
    }
    // From the second on, the child replaces its own checkpoint.
    bool is_in_time = is_soon(/*saving=*/true);
    for (int saves = 1; saves < 2 + round; ++saves) {
      is_in_time = is_in_time && is_soon(/*saving=*/false) && is_soon(/*saving=*/true);
    }
    ASSERT_EQ(::kill(child, SIGKILL), 0);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(is_in_time);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    const at::Tensor loaded = load(at::zeros({100000}));
    const auto value = loaded[0].item<double>();
    EXPECT_TRUE(loaded.eq(value).all().item<bool>());
    EXPECT_GE(value, before);
    before = value;
  }
  EXPECT_GT(before, 0);
}

// Otherwise the new checkpoint could be incomplete after a power failure.
TEST_F(CheckpointTest, AllFilesAreOnDiskBeforeTheNewCheckpointIsInPlace) {
  save(at::zeros({4}));
  const std::string old_index = bytes_of(path_ + "/checkpoint.json");
  std::vector<std::string> synced;
  ino_t unfinished = 0;
  when_synced = [&](int fd, const std::string& file) {
    struct stat status {};
    EXPECT_EQ(::fstat(fd, &status), 0);
    if (file.ends_with("/last.tmp-1")) unfinished = status.st_ino;
    const bool is_old = bytes_of(path_ + "/checkpoint.json") == old_index;
    synced.push_back(fs::path(file).filename().string() + (is_old ? ", old" : ", new"));
  };
  save(at::ones({4}));
  when_synced = nullptr;
  EXPECT_THAT(synced, ElementsAre("shard-00001-model-00001-of-00001.safetensors, old",
                                  "checkpoint.json, old", "last.tmp-1, old", "run, new"));
  // It was renamed, because a copy could be interrupted.
  struct stat status {};
  ASSERT_EQ(::stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_ino, unfinished);
}

// Otherwise a killed process could leave no checkpoint at all.
TEST_F(CheckpointTest, TheOldCheckpointIsNotRemovedBeforeTheNewOneIsInPlace) {
  save(at::zeros({4}));
  const UniqueFd watch(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  ASSERT_TRUE(watch);
  const std::string folder = fs::path(path_).parent_path().string();
  ASSERT_GE(::inotify_add_watch(watch.get(), folder.c_str(), IN_DELETE), 0);
  save(at::ones({4}));
  std::vector<std::string> removed;
  alignas(inotify_event) std::array<char, 4096> events{};
  const ssize_t size = ::read(watch.get(), events.data(), events.size());
  for (ssize_t at = 0; at < size;) {
    const auto* const event = reinterpret_cast<const inotify_event*>(events.data() + at);
    removed.emplace_back(static_cast<const char*>(event->name));
    at += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
  }
  // The old checkpoint has one of these names then.
  EXPECT_THAT(removed, ElementsAre(AnyOf("last.tmp-1", "last.old")));
}

// As a process leaves it that was killed between two renames.
TEST_F(CheckpointTest, LoadsTheOldCheckpointIfTheNewOneIsNotInPlace) {
  save(at::ones({4}));
  fs::rename(path_, path_ + ".old");
  EXPECT_TRUE(load(at::zeros({4})).equal(at::ones({4})));
}

TEST_F(CheckpointTest, DoesNotReplaceAFolderThatHasOtherFiles) {
  const std::string to_do = "; remove it, or save elsewhere";
  fs::create_directories(path_);
  write(path_ + "/thesis.txt", "years of work");
  EXPECT_EQ(error_of([&] { save(at::ones({4})); }),
            "save_checkpoint: rank 0: " + path_ +
                " has thesis.txt, which is not part of a checkpoint" + to_do);
  EXPECT_EQ(bytes_of(path_ + "/thesis.txt"), "years of work");
  std::remove((path_ + "/thesis.txt").c_str());
  save(at::ones({4}));
  save_checkpoint(path_ + "/step2", state_of({{"x", at::ones({4})}}));
  EXPECT_THAT(error_of([&] { save(at::ones({4})); }),
              HasSubstr(" has step2, which is not part of a checkpoint"));
  const std::string other = path_ + "-other";
  fs::create_directories(other);
  write(other + "/checkpoint.json", "{}");
  EXPECT_THAT(error_of([&] { save_checkpoint(other, {}); }),
              HasSubstr(other + " exists and is not a checkpoint of distrun: "));
  EXPECT_EQ(bytes_of(other + "/checkpoint.json"), "{}");
  write(path_ + "-file", "a file");
  EXPECT_THAT(error_of([&] { save_checkpoint(path_ + "-file", {}); }),
              HasSubstr("-file exists and is not a folder"));
  for (const std::string path : {"", ".", "/"}) {
    EXPECT_THAT(error_of([&] { save_checkpoint(path, {}); }),
                HasSubstr("' is not a path to a folder with a name"));
  }
}

// As on a file system that only one machine sees.
TEST_F(CheckpointTest, NamesAFileThatTheFirstRankDoesNotSee) {
  save(at::ones({4}));
  const internal::FolderLock lock = internal::begin_checkpoint(path_);
  const std::string unfinished = internal::unfinished_name(path_);
  EXPECT_EQ(error_of([&] {
              internal::commit_checkpoint(unfinished, path_, {{.name = "shard", .bytes = 3}});
            }),
            unfinished + "/shard of another rank is not here; all ranks must see the same folder");
  internal::discard_checkpoint(unfinished);
  EXPECT_TRUE(load(at::zeros({4})).equal(at::ones({4})));
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
  write(index, bytes_of(index).substr(0, 40));
  EXPECT_THAT(error_of_load(), HasSubstr("load_checkpoint: rank 0: " + index + " is damaged: "));
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
  EXPECT_EQ(problem(with("\"version\": 1", "\"version\": 2")), "a newer distrun has written it");
  EXPECT_EQ(problem(with("\"a\"", "\"../a\"")), "'../a' is not the name of a file");
  EXPECT_EQ(problem(with("00000000000000ff", "x")), "'x' is not a checksum");
}

}  // namespace
}  // namespace distrun

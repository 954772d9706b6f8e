// Which folders a save of one process replaces and leaves, also if it is killed.
#include "parallel/checkpoint/checkpoint_folder.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/inotify.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/os/unique_fd.h"
#include "parallel/checkpoint/folder_lock.h"
#include "parallel/checkpoint/test/checkpoint_fixture.h"

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
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

class CheckpointFolderTest : public CheckpointFixture {
 protected:
  // Waits until another process writes a checkpoint, or until it does not.
  bool is_soon(bool saving) const {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (fs::exists(path_ + ".unfinished") != saving) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::yield();
    }
    return true;
  }
};

TEST_F(CheckpointFolderTest, ReplacesAnOlderCheckpointAndLeavesNothingElse) {
  save(at::zeros({4}));
  save_checkpoint(path_ + "/", state_of({{"x", at::ones({4})}}));
  EXPECT_TRUE(load(at::zeros({4})).equal(at::ones({4})));
  EXPECT_THAT(names_in(folder_.path() + "/run"), ElementsAre("last"));
  EXPECT_THAT(names_in(path_), UnorderedElementsAre("checkpoint.json", fs::path(file_).filename()));
}

TEST_F(CheckpointFolderTest, ALinkToACheckpointRemains) {
  save(at::zeros({4}));
  fs::create_directory_symlink(path_, path_ + "-link");
  save_checkpoint(path_ + "-link", state_of({{"x", at::ones({4})}}));
  EXPECT_TRUE(fs::is_symlink(path_ + "-link"));
  EXPECT_TRUE(load(at::zeros({4})).equal(at::ones({4})));
  fs::create_directory_symlink(path_ + "-none", path_ + "-dangling");
  EXPECT_THAT(error_of([&] { save_checkpoint(path_ + "-dangling", {}); }),
              HasSubstr("-dangling is a link to a path that does not exist"));
}

TEST_F(CheckpointFolderTest, TheNewFolderHasTheModeOfTheOldOne) {
  const auto mode = [&] { return fs::status(path_).permissions(); };
  save(at::zeros({4}));
  for (const fs::perms one : {fs::perms(0700), fs::perms(0775)}) {
    fs::permissions(path_, one);
    const internal::FolderLock lock = internal::begin_checkpoint(path_);
    // Also before the new one is in place.
    EXPECT_EQ(fs::status(path_ + ".unfinished").permissions(), one);
    internal::commit_checkpoint(path_ + ".unfinished", path_, {});
    EXPECT_EQ(mode(), one);
  }
}

// As a killed process leaves it.
TEST_F(CheckpointFolderTest, RemovesWhatAnInterruptedSaveHasLeft) {
  save(at::zeros({4}));
  fs::create_directory(path_ + ".unfinished");
  write(path_ + ".unfinished/shard-00001-model-00001-of-00001.safetensors", "half a file");
  fs::create_directory(path_ + ".unfinished-mine");
  EXPECT_TRUE(load(at::zeros({4})).equal(at::zeros({4})));
  save(at::ones({4}));
  EXPECT_THAT(names_in(folder_.path() + "/run"),
              UnorderedElementsAre("last", "last.unfinished-mine"));
}

TEST_F(CheckpointFolderTest, ASaveToThePathOfASaveInProgressThrows) {
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
TEST_F(CheckpointFolderTest, AForkedProcessDoesNotKeepASaveInProgress) {
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

TEST_F(CheckpointFolderTest, AProcessThatIsKilledDoesNotKeepASaveInProgress) {
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

TEST_F(CheckpointFolderTest, DoesNotRemoveAFolderThatNoSaveHasLeft) {
  const std::string unfinished = path_ + ".unfinished", to_do = "; remove it, or save elsewhere";
  fs::create_directories(unfinished);
  write(unfinished + "/thesis.txt", "years of work");
  EXPECT_EQ(error_of([&] { save(at::ones({4})); }),
            "save_checkpoint: rank 0: " + unfinished +
                " has thesis.txt, which is not part of an unfinished checkpoint" + to_do);
  EXPECT_EQ(bytes_of(unfinished + "/thesis.txt"), "years of work");
}

// Kills a process that saves 1, 2, 3, …, each time while it writes the folder of the next one.
TEST_F(CheckpointFolderTest, AProcessThatIsKilledLeavesAWholeCheckpoint) {
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
TEST_F(CheckpointFolderTest, AllFilesAreOnDiskBeforeTheNewCheckpointIsInPlace) {
  save(at::zeros({4}));
  const std::string old_index = bytes_of(path_ + "/checkpoint.json");
  std::vector<std::string> synced;
  ino_t unfinished = 0;
  when_synced = [&](int fd, const std::string& file) {
    struct stat status {};
    EXPECT_EQ(::fstat(fd, &status), 0);
    if (file.ends_with("/last.unfinished")) unfinished = status.st_ino;
    const bool is_old = bytes_of(path_ + "/checkpoint.json") == old_index;
    synced.push_back(fs::path(file).filename().string() + (is_old ? ", old" : ", new"));
  };
  save(at::ones({4}));
  when_synced = nullptr;
  EXPECT_THAT(synced, ElementsAre("shard-00001-model-00001-of-00001.safetensors, old",
                                  "checkpoint.json, old", "last.unfinished, old", "run, new"));
  // It was renamed, because a copy could be interrupted.
  struct stat status {};
  ASSERT_EQ(::stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_ino, unfinished);
}

// Otherwise a killed process could leave no checkpoint at all.
TEST_F(CheckpointFolderTest, TheOldCheckpointIsNotRemovedBeforeTheNewOneIsInPlace) {
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
  EXPECT_THAT(removed, ElementsAre(AnyOf("last.unfinished", "last.old")));
}

// As a process leaves it that was killed between two renames.
TEST_F(CheckpointFolderTest, LoadsTheOldCheckpointIfTheNewOneIsNotInPlace) {
  save(at::ones({4}));
  fs::rename(path_, path_ + ".old");
  EXPECT_TRUE(load(at::zeros({4})).equal(at::ones({4})));
}

// Makes the file systems of this process such as NFS: renameat2() fails.
bool forbid_exchange() {
  std::array<sock_filter, 4> program = {
      {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
       BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_renameat2, 0, 1),
       BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
       BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)}};
  const sock_fprog filter{.len = program.size(), .filter = program.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0) == 0;
}

TEST_F(CheckpointFolderTest, WithoutAnExchangeOfFoldersNothingElseIsLeft) {
  at::set_num_threads(1);  // A forked process has no pool of threads.
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);
    if (!forbid_exchange()) ::_exit(2);
    save(at::zeros({4}));
    // As a process leaves it that was killed while it removed the old checkpoint.
    fs::create_directory(path_ + ".old");
    write(path_ + ".old/shard-00001-model-00001-of-00001.safetensors", "x");
    ::_exit(error_of([&] { save(at::ones({4})); }) == "no error" ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 2) GTEST_SKIP() << "this process may not filter system calls";
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_THAT(names_in(folder_.path() + "/run"), ElementsAre("last"));
  EXPECT_TRUE(load(at::zeros({4})).equal(at::ones({4})));
}

TEST_F(CheckpointFolderTest, DoesNotReplaceAFolderThatHasOtherFiles) {
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

TEST_F(CheckpointFolderTest, DoesNotReplaceAMountPoint) {
  EXPECT_EQ(error_of([&] { save_checkpoint("/proc", {}); }),
            "save_checkpoint: rank 0: /proc is a mount point, which cannot be replaced; save to a "
            "folder in it");
}

// It is on the same file system as the folder above it.
TEST_F(CheckpointFolderTest, DoesNotReplaceABoundFolder) {
  fs::create_directories(path_);
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);
    const bool is_bound =
        (::unshare(CLONE_NEWNS) == 0 || ::unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0) &&
        ::mount("", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
        ::mount(path_.c_str(), path_.c_str(), nullptr, MS_BIND, nullptr) == 0;
    if (!is_bound) ::_exit(2);
    const std::string error = error_of([&] { save_checkpoint(path_, {}); });
    ::_exit(error.find(path_ + " is a mount point") == std::string::npos ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 2) GTEST_SKIP() << "this process may not mount folders";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

// As on a file system that only one machine sees.
TEST_F(CheckpointFolderTest, NamesAFileThatTheFirstRankDoesNotSee) {
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

}  // namespace
}  // namespace distrun

#include "backends/shm/host/peer_memory.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

namespace distrun::shm {
namespace {

std::uint64_t address_of(const void* data) { return reinterpret_cast<std::uintptr_t>(data); }

// Another process with the memory that this one has now.
class PeerMemoryTest : public ::testing::Test {
 protected:
  PeerMemoryTest() {
    int ends[2];
    EXPECT_EQ(::pipe(ends), 0);
    child_ = ::fork();
    if (child_ == 0) {
      ::close(ends[1]);
      char byte = 0;
      ::_exit(static_cast<int>(::read(ends[0], &byte, 1)));  // Until the test lets go.
    }
    ::close(ends[0]);
    lifeline_ = ends[1];
  }
  ~PeerMemoryTest() override { end_child(); }

  void end_child() {
    if (child_ == 0) return;
    ::close(lifeline_);
    EXPECT_EQ(::waitpid(child_, nullptr, 0), child_);
    child_ = 0;
  }

  // Skips the test if the system does not permit it at all, such as under an emulator.
  void SetUp() override {
    std::uint64_t read = 0;
    const iovec to{&read, sizeof(read)}, from{&value_, sizeof(value_)};
    if (::process_vm_readv(child_, &to, 1, &from, 1, 0) < 0) {
      GTEST_SKIP() << "process_vm_readv: " << std::strerror(errno);
    }
  }

  PeerMemory peers() const { return PeerMemory({::getpid(), child_}); }

  static bool can_read(const PeerMemory& peers, std::uint64_t address, std::size_t bytes) {
    std::vector<std::byte> to(bytes);
    return peers.read(1, address, to.data(), bytes);
  }

  std::uint64_t value_ = 1234;  // Before the fork.

 private:
  pid_t child_ = 0;
  int lifeline_ = -1;
};

TEST_F(PeerMemoryTest, ReadsWhatTheOtherProcessHas) {
  value_ = 5678;  // The child has a copy.
  std::uint64_t read = 0;
  EXPECT_TRUE(
      peers().read(1, address_of(&value_), reinterpret_cast<std::byte*>(&read), sizeof(read)));
  EXPECT_EQ(read, 1234U);
}

TEST_F(PeerMemoryTest, FindsOnlyTheExpectedValue) {
  EXPECT_TRUE(peers().finds(1, address_of(&value_), 1234));
  EXPECT_FALSE(peers().finds(1, address_of(&value_), 1235));
  EXPECT_FALSE(peers().finds(1, 0, 0));
  EXPECT_FALSE(PeerMemory({::getpid(), 0}).finds(1, address_of(&value_), 1234));
}

TEST_F(PeerMemoryTest, FindsNothingIfTheUserForbidsIt) {
  ::setenv("DISTRUN_SHM_READ_PEERS", "0", 1);
  const PeerMemory none = peers();
  ::unsetenv("DISTRUN_SHM_READ_PEERS");
  EXPECT_FALSE(none.finds(1, address_of(&value_), 1234));
  EXPECT_FALSE(none.are_faster(/*reads=*/0, /*copies=*/1));
}

TEST_F(PeerMemoryTest, IsFasterIfItSavesEnoughCopies) {
  ::unsetenv("DISTRUN_SHM_READ_PEERS");
  EXPECT_TRUE(peers().are_faster(/*reads=*/1, /*copies=*/1'000'000));
  EXPECT_FALSE(peers().are_faster(/*reads=*/1'000'000, /*copies=*/1));
}

TEST_F(PeerMemoryTest, CountsAsFasterIfTheUserSaysSo) {
  ::setenv("DISTRUN_SHM_READ_PEERS", "1", 1);
  const PeerMemory always = peers();
  ::unsetenv("DISTRUN_SHM_READ_PEERS");
  EXPECT_TRUE(always.are_faster(/*reads=*/1'000'000, /*copies=*/1));
}

TEST_F(PeerMemoryTest, DoesNotReadAnEndedProcess) {
  const PeerMemory both = peers();
  EXPECT_TRUE(can_read(both, address_of(&value_), sizeof(value_)));
  end_child();
  EXPECT_FALSE(can_read(both, address_of(&value_), sizeof(value_)));
}

TEST_F(PeerMemoryTest, DoesNotReadBeyondTheMemoryThatThereIs) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  void* const memory =
      ::mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_EQ(::munmap(static_cast<std::byte*>(memory) + page, page), 0);
  const PeerMemory self({::getpid(), ::getpid()});
  EXPECT_TRUE(can_read(self, address_of(memory), page));
  EXPECT_FALSE(can_read(self, address_of(memory), page + 8));
  EXPECT_FALSE(can_read(self, address_of(memory) + page, 8));
  ::munmap(memory, page);
}

}  // namespace
}  // namespace distrun::shm

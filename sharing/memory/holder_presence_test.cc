#include "sharing/memory/holder_presence.h"

#include <c10/util/Exception.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "sharing/memory/test/child_process.h"

namespace distrun::internal {
namespace {

TEST(HolderPresenceTest, SingleHolderSeesNoOther) {
  const HolderPresence alone = HolderPresence::make({.can_put = true, .can_get = true});
  EXPECT_FALSE(alone.other(Ability::kPut));
  EXPECT_FALSE(alone.other(Ability::kGet));
}

TEST(HolderPresenceTest, OthersAreFoundByTheirAbilities) {
  const HolderPresence first = HolderPresence::make({.can_put = true, .can_get = true});
  const HolderPresence reader = first.another({.can_get = true});
  reader.announce();
  EXPECT_FALSE(first.other(Ability::kPut));
  EXPECT_EQ(first.other(Ability::kGet), ::getpid());
  EXPECT_EQ(reader.other(Ability::kPut), ::getpid());
  EXPECT_EQ(reader.other(Ability::kGet), ::getpid());
}

TEST(HolderPresenceTest, HolderThatIsGoneFreesItsPlace) {
  const HolderPresence first = HolderPresence::make({.can_put = true, .can_get = true});
  for (int i = 0; i < 5000; ++i) {
    const HolderPresence other = first.another({.can_put = true});
    ASSERT_EQ(other.places().put, 1);
    ASSERT_TRUE(first.other(Ability::kPut));
  }
  EXPECT_FALSE(first.other(Ability::kPut));
}

TEST(HolderPresenceTest, HolderInFlightIsSeenWithoutAPid) {
  const HolderPresence first = HolderPresence::make({.can_put = true, .can_get = true});
  auto sockets = make_packet_sockets().value();
  {
    HolderPresence other = first.another({.can_put = true});
    const UniqueFd sent = other.release();
    ASSERT_TRUE(send_packet(sockets.first.get(), "x", {sent.get()}));
  }
  EXPECT_EQ(first.other(Ability::kPut), 0);
  auto packet = receive_packet(sockets.second.get()).value();
  {
    const HolderPresence taken =
        HolderPresence::taken_over(std::move(packet.descriptors.at(0)), {.put = 1, .get = -1});
    EXPECT_EQ(first.other(Ability::kPut), ::getpid());
  }
  EXPECT_FALSE(first.other(Ability::kPut));
}

TEST(HolderPresenceTest, KilledHolderIsNotSeen) {
  const HolderPresence first = HolderPresence::make({.can_put = true, .can_get = true});
  testing::ChildProcess child([&](int socket) {
    const HolderPresence own = first.another(first.abilities());
    own.announce();
    testing::say(socket);
    return receive_packet(socket).value().has_ended;
  });
  child.wait_for_word();
  EXPECT_EQ(first.other(Ability::kPut), child.pid());
  child.kill();
  EXPECT_FALSE(first.other(Ability::kPut));
}

TEST(HolderPresenceTest, PutLockOfAKilledHolderIsReleased) {
  const HolderPresence first = HolderPresence::make({.can_put = true, .can_get = true});
  testing::ChildProcess child([&](int socket) {
    const HolderPresence own = first.another(first.abilities());
    const bool is_held = own.try_lock_put();
    testing::say(socket);
    return is_held && receive_packet(socket).value().has_ended;
  });
  child.wait_for_word();
  EXPECT_FALSE(first.try_lock_put());
  child.kill();
  EXPECT_TRUE(first.try_lock_put());
  first.unlock_put();
}

TEST(HolderPresenceTest, RefusesOtherFiles) {
  UniqueFd null(::open("/dev/null", O_RDWR));
  const int number = null.get();
  EXPECT_EQ(testing::error_of<c10::ValueError>(
                [&] { HolderPresence::taken_over(std::move(null), {.put = 0}); }),
            c10::str("take over what is shared: places 0 and -1 of descriptor ", number));
  EXPECT_THROW(HolderPresence::taken_over(UniqueFd(), {.put = 0}), c10::ValueError);
}

}  // namespace
}  // namespace distrun::internal

#include "launcher/nodes/name_look_up.h"

#include <chrono>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace distrun {
namespace {

using boost::asio::ip::tcp;
using ::testing::Contains;

TEST(NameLookUpTest, FindsAHost) {
  boost::asio::io_context io;
  std::optional<Result<ResolvedAddresses>> found;
  const NameLookUp look_up(io, "localhost", 29500, [&](auto result) { found = result; });
  io.run_for(std::chrono::seconds(30));
  ASSERT_TRUE(found && *found);
  const tcp::endpoint v4(boost::asio::ip::make_address("127.0.0.1"), 29500);
  EXPECT_THAT(found->value(), Contains(v4));
}

TEST(NameLookUpTest, ReportsUnknownNames) {
  boost::asio::io_context io;
  std::optional<Result<ResolvedAddresses>> found;
  const NameLookUp look_up(io, "no such host", 29500, [&](auto result) { found = result; });
  io.run_for(std::chrono::seconds(60));
  ASSERT_TRUE(found);
  ASSERT_FALSE(*found);
  EXPECT_EQ(found->error().kind, ErrorKind::kSystem);
}

TEST(NameLookUpTest, DoesNotCallTheHandlerAfterDestruction) {
  boost::asio::io_context io;
  bool called = false;
  {
    const NameLookUp look_up(io, "localhost", 29500, [&](auto) { called = true; });
  }
  EXPECT_EQ(io.run_for(std::chrono::seconds(30)), 1u);  // The canceled wait.
  EXPECT_FALSE(called);
}

}  // namespace
}  // namespace distrun

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netdb.h>
#include <netinet/in.h>

namespace distrun {
namespace {

using ::testing::StrEq;

TEST(NoNameLookUpTest, NameOfAPeerIsItsAddress) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  char name[NI_MAXHOST] = "";
  ASSERT_EQ(::getnameinfo(reinterpret_cast<const sockaddr*>(&address), sizeof address, name,
                          sizeof name, nullptr, 0, 0),
            0);
  EXPECT_THAT(name, StrEq("127.0.0.1"));
}

}  // namespace
}  // namespace distrun

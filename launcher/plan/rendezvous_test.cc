#include "launcher/plan/rendezvous.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace distrun {
namespace {

using ::testing::HasSubstr;

std::string place_text(const RunRendezvous& place) {
  return place.address + " " + std::to_string(place.port) + " " + place.run_id;
}

TEST(RendezvousTest, WithoutAddressUsesFreePortAndRandomId) {
  EXPECT_EQ(place_text(run_rendezvous({})), "127.0.0.1 0 ");
  EXPECT_EQ(place_text(run_rendezvous({.run_id = "mine"})), "127.0.0.1 0 mine");
}

TEST(RendezvousTest, StaticUsesGivenAddressAndPort) {
  EXPECT_EQ(place_text(run_rendezvous({.master_port = 29600})), "127.0.0.1 29600 none");
  EXPECT_EQ(place_text(run_rendezvous({.run_id = "mine", .master_addr = "::1", .master_port = 0})),
            "::1 0 mine");
  EXPECT_EQ(place_text(run_rendezvous({.endpoint = Endpoint{"127.0.0.2", 7}, .master_port = 8})),
            "127.0.0.2 7 none");
}

TEST(RendezvousTest, HostNameBecomesLoopback) {
  EXPECT_EQ(place_text(run_rendezvous({.master_addr = "node7", .master_port = 5})),
            "127.0.0.1 5 none");
  EXPECT_EQ(place_text(run_rendezvous({.endpoint = Endpoint{"localhost", 6}})), "127.0.0.1 6 none");
}

TEST(RendezvousTest, C10dUsesAFreePortEvenIfTheEndpointHasOne) {
  EXPECT_EQ(place_text(run_rendezvous({.backend = RdzvBackend::kC10d,
                                       .endpoint = Endpoint{"10.0.0.1", 29400},
                                       .master_addr = "10.0.0.2",
                                       .master_port = 5})),
            "127.0.0.1 0 none");
  EXPECT_EQ(place_text(run_rendezvous({.backend = RdzvBackend::kC10d, .local_addr = "127.0.0.3"})),
            "127.0.0.3 0 none");
}

TEST(RendezvousTest, StandaloneOverridesOtherFlags) {
  EXPECT_EQ(place_text(run_rendezvous({.standalone = true,
                                       .endpoint = Endpoint{"10.0.0.1", 29400},
                                       .master_addr = "10.0.0.2",
                                       .master_port = 5})),
            "127.0.0.1 0 ");
}

TEST(RendezvousTest, NamesTheFlagThatGaveTheAddress) {
  EXPECT_EQ(run_rendezvous({.master_addr = "10.0.0.2"}).flag, "master-addr");
  EXPECT_EQ(run_rendezvous({.endpoint = Endpoint{"10.0.0.1", 29400}}).flag, "rdzv-endpoint");
  EXPECT_EQ(run_rendezvous({.master_addr = "10.0.0.2", .local_addr = "10.0.0.3"}).flag,
            "local-addr");
}

TEST(RendezvousTest, ParsesEndpointsLikeTorch) {
  const auto read = [](std::string_view given) {
    const Endpoint endpoint = parse_endpoint(given).value();
    return endpoint.host + " " + (endpoint.port ? std::to_string(*endpoint.port) : "-");
  };
  EXPECT_EQ(read("node7:29500"), "node7 29500");
  EXPECT_EQ(read(" node7 "), "node7 -");
  EXPECT_EQ(read("[::1]:0"), "::1 0");
  EXPECT_EQ(read("[::1]"), "::1 -");
  EXPECT_EQ(read("fe80::1"), "fe80::1 -");
  for (const auto* given :
       {"node7:", "node7:65536", "node7:x", ":29500", "a b", "http://a:1", "[]"}) {
    EXPECT_TRUE(parse_endpoint(given).has_error()) << given;
  }
}

TEST(RendezvousTest, KnowsWhatOtherMachinesCannotReach) {
  for (const auto* here : {"127.0.0.1", "127.8.0.1", "::1", "::ffff:127.0.0.1", "localhost"}) {
    EXPECT_TRUE(is_loopback(here)) << here;
  }
  for (const auto* there : {"", "10.0.0.1", "128.0.0.1", "fe80::1", "gpu-0", "localhost.example"}) {
    EXPECT_FALSE(is_loopback(there)) << there;
  }
}

TEST(RendezvousTest, ALinkLocalAddressNeedsAnInterface) {
  for (const auto* good : {"gpu-0", "10.0.0.1", "169.254.0.1", "fd00::1", "fe80::1%lo"}) {
    EXPECT_FALSE(check_interface(good).has_error()) << good;
  }
  EXPECT_EQ(check_interface("fe80::1").error().message,
            "'fe80::1' is a link-local address; add the interface of this machine that leads to "
            "node 0, as in fe80::1%eth0");
  EXPECT_EQ(check_interface("fe80::1%none7").error().message,
            "'fe80::1%none7': this machine has no interface 'none7'; give the one that leads to "
            "node 0 (ip -6 route)");
}

TEST(RendezvousTest, KeepsTheInterfaceOfALinkLocalAddress) {
  EXPECT_EQ(parse_host("fe80::1%eth0").value(), "fe80::1%eth0");
  const Endpoint endpoint = parse_endpoint("[fe80::1%eth0.7]:29500").value();
  EXPECT_EQ(endpoint.host, "fe80::1%eth0.7");
  EXPECT_EQ(endpoint.port, 29500);
}

TEST(RendezvousTest, ParsesConfigurationAsKeysAndValues) {
  for (const auto* good : {"", " ", "timeout=900", "is_host=1, rank = x=y"}) {
    EXPECT_FALSE(parse_rdzv_conf(good).has_error()) << good;
  }
  for (const auto* bad : {"timeout", "timeout=", "=900", "rank=1,", "rank=1,,rank=2"}) {
    EXPECT_TRUE(parse_rdzv_conf(bad).has_error()) << bad;
  }
}

TEST(RendezvousTest, SuggestsTheClosestKey) {
  EXPECT_EQ(parse_rdzv_conf("timout=3").error().message,
            "unknown key 'timout': did you mean timeout?");
  EXPECT_EQ(parse_rdzv_conf("a=1").error().message, "unknown key 'a'");
}

TEST(RendezvousTest, AcceptsStaticAndC10dOnly) {
  EXPECT_EQ(parse_rdzv_backend("static").value(), RdzvBackend::kStatic);
  EXPECT_EQ(parse_rdzv_backend("c10d").value(), RdzvBackend::kC10d);
  EXPECT_THAT(parse_rdzv_backend("etcd-v2").error().message, HasSubstr("use static"));
  EXPECT_THAT(parse_rdzv_backend("zeus").error().message, HasSubstr("neither static nor c10d"));
}

}  // namespace
}  // namespace distrun

#include "launcher/preflight/node_findings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace distrun {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A node without problems.
NodeFacts healthy() {
  NodeFacts facts;
  facts.open_files = kOpenFilesMin;
  facts.processes = Left{kProcessesMin, Left::Limit::kCgroup};
  facts.memory = Left{kMemoryMin, Left::Limit::kMachine};
  facts.cgroup_cpus = 8;
  facts.visible_cpus = 8;
  facts.shared_memory = {"/dev/shm", true, true, kSharedMemoryMin, kSharedMemoryMin};
  facts.temporary = {"/tmp", true, true, kTemporaryMin, kTemporaryMin};
  facts.own_name = "gpu-1";
  facts.interfaces = {
      {"eth0", true, true}, {"ib0", true, false}, {"ib1", false, false}, {"lo", true, true}};
  return facts;
}

TEST(NodeFindingsTest, AHealthyNodeHasNone) { EXPECT_THAT(node_findings(healthy()), IsEmpty()); }

TEST(NodeFindingsTest, WhatIsUnknownIsNoFinding) {
  NodeFacts facts = healthy();
  facts.open_files.reset();
  facts.processes.reset();
  facts.memory.reset();
  facts.cgroup_cpus.reset();
  EXPECT_THAT(node_findings(facts), IsEmpty());
}

TEST(NodeFindingsTest, FindsLowLimits) {
  NodeFacts facts = healthy();
  facts.open_files = 256;
  facts.processes = Left{255, Left::Limit::kCgroup};
  facts.memory = Left{300 * kMiB, Left::Limit::kCgroup};
  EXPECT_THAT(
      node_findings(facts),
      ElementsAre("a process can open only 256 files: raise the limit (ulimit -n 16384)",
                  "only 255 more processes and threads can start: raise pids.max of the cgroup "
                  "(docker run --pids-limit=-1)",
                  "only 300 MiB of memory are free under the limit of the cgroup: give the job or "
                  "the container more memory"));
  facts = healthy();
  facts.processes = Left{10, Left::Limit::kUser};
  facts.memory = Left{kMemoryMin - 1, Left::Limit::kMachine};
  EXPECT_THAT(node_findings(facts),
              ElementsAre("only 10 more processes and threads can start: end other processes of "
                          "this user, or raise the limit (ulimit -u)",
                          "only 1023 MiB of memory are free: end other programs"));
}

TEST(NodeFindingsTest, FindsALimitOfCpuTimeUnlessThreadsAreFewer) {
  NodeFacts facts = healthy();
  facts.cgroup_cpus = 2.5;
  EXPECT_THAT(node_findings(facts),
              ElementsAre("the cgroup allows 2.5 CPUs, but programs see 8 and may start as "
                          "many threads: set OMP_NUM_THREADS=2, or give the job or the container "
                          "more CPUs"));
  facts.variables["OMP_NUM_THREADS"] = "2";
  EXPECT_THAT(node_findings(facts), IsEmpty());
  facts.variables["OMP_NUM_THREADS"] = "3";
  EXPECT_EQ(node_findings(facts).size(), 1U);
}

TEST(NodeFindingsTest, FindsUnusableSharedMemory) {
  NodeFacts facts = healthy();
  facts.shared_memory.free_bytes = 12 * kMiB;
  EXPECT_THAT(
      node_findings(facts),
      ElementsAre("/dev/shm has only 12 MiB free of 256 MiB: remove files that no program uses"));
  facts.shared_memory.bytes = 64 * kMiB;
  EXPECT_THAT(node_findings(facts),
              ElementsAre("/dev/shm has 64 MiB: data loaders of PyTorch and NCCL need more (docker "
                          "run --shm-size=1g)"));
  facts.shared_memory.writable = false;
  EXPECT_THAT(node_findings(facts),
              ElementsAre("/dev/shm is not writable: data loaders of PyTorch and NCCL write there "
                          "(chmod 1777 /dev/shm)"));
  facts.shared_memory.exists = false;
  EXPECT_THAT(node_findings(facts),
              ElementsAre("/dev/shm does not exist: data loaders of PyTorch and NCCL need it; "
                          "mount a tmpfs there"));
}

TEST(NodeFindingsTest, FindsAnUnusableFolderForTemporaryFiles) {
  NodeFacts facts = healthy();
  facts.temporary.free_bytes = kTemporaryMin - 1;
  EXPECT_THAT(node_findings(facts),
              ElementsAre("the folder for temporary files, /tmp, has only 99 MiB free: remove "
                          "files, or set TMPDIR to another folder"));
  facts.temporary.path = "/scratch";
  facts.has_tmpdir = true;
  facts.temporary.writable = false;
  EXPECT_THAT(node_findings(facts),
              ElementsAre("the folder for temporary files, /scratch (TMPDIR), is not writable: "
                          "give this user access, or set TMPDIR to another folder"));
  facts.temporary.exists = false;
  EXPECT_THAT(node_findings(facts),
              ElementsAre("the folder for temporary files, /scratch (TMPDIR), does not exist: make "
                          "it, or set TMPDIR to another folder"));
}

TEST(NodeFindingsTest, FindsThatTheOwnNameDoesNotResolve) {
  NodeFacts facts = healthy();
  facts.own_name_look = NodeFacts::Look::kNotFound;
  EXPECT_THAT(
      node_findings(facts),
      ElementsAre("the name of this machine, gpu-1, does not resolve: Gloo looks it up; add "
                  "it to /etc/hosts, or set GLOO_SOCKET_IFNAME"));
  facts.own_name_look = NodeFacts::Look::kSlow;
  EXPECT_THAT(node_findings(facts),
              ElementsAre("the name of this machine, gpu-1, takes more than 1 s to resolve: Gloo "
                          "looks it up; add it to /etc/hosts, or set GLOO_SOCKET_IFNAME"));
  facts.variables["GLOO_SOCKET_IFNAME"] = "eth0";
  EXPECT_THAT(node_findings(facts), IsEmpty());
}

TEST(NodeFindingsTest, FindsUnusableInterfacesOfGloo) {
  NodeFacts facts = healthy();
  facts.variables["GLOO_SOCKET_IFNAME"] = "eth0,eth7,ib0,ib1";
  EXPECT_THAT(
      node_findings(facts),
      ElementsAre("the interface eth7 of GLOO_SOCKET_IFNAME does not exist: choose from eth0, lo",
                  "the interface ib0 of GLOO_SOCKET_IFNAME has no IP address: choose from eth0, lo",
                  "the interface ib1 of GLOO_SOCKET_IFNAME is down: choose from eth0, lo"));
  facts.interfaces.clear();
  facts.variables["GLOO_SOCKET_IFNAME"] = "eth0";
  EXPECT_THAT(node_findings(facts), ElementsAre("the interface eth0 of GLOO_SOCKET_IFNAME does not "
                                                "exist: this node has no usable interface"));
}

TEST(NodeFindingsTest, FindsInterfacesOfNcclAsNcclReadsThem) {
  NodeFacts facts = healthy();
  const auto is_found = [&](const std::string& value) {
    facts.variables["NCCL_SOCKET_IFNAME"] = value;
    return node_findings(facts).empty();
  };
  for (const char* fits :
       {"eth", "eth0", "ens,eth", "=eth0", "^docker", "^=eth", "^lo,ib", "=x,lo"}) {
    EXPECT_TRUE(is_found(fits)) << fits;
  }
  for (const char* fits_none : {"ens", "=eth", "ib", "^e,l", "^=eth0,lo"}) {
    EXPECT_FALSE(is_found(fits_none)) << fits_none;
  }
  EXPECT_THAT(node_findings(facts),
              ElementsAre("no interface that is up and has an IP address fits "
                          "NCCL_SOCKET_IFNAME=^=eth0,lo: choose from eth0, lo"));
}

TEST(NodeFindingsTest, WritesSizesAsPeopleRead) {
  EXPECT_EQ(size_text(64 * kMiB), "64 MiB");
  EXPECT_EQ(size_text(kGiB + kGiB / 2), "1.5 GiB");
  EXPECT_EQ(size_text(2 * kGiB - 1), "1.9 GiB");
  EXPECT_EQ(size_text(10 * kKiB), "10 KiB");
}

}  // namespace
}  // namespace distrun

#include "testsuites/testing/collectives.h"

#include <cstdlib>
#include <filesystem>
#include <future>
#include <thread>

#include <ATen/ops/ones.h>
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "backends/gloo/gloo.h"

namespace distrun {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Sizes = std::vector<std::vector<std::int64_t>>;

json entry(int id, const char* name, const Sizes& sizes, bool has_ended = true) {
  return {{"record_id", id},
          {"collective_seq_id", id + 1},
          {"retired", has_ended},
          {"process_group", {"0", "default_pg"}},
          {"profiling_name", name},
          {"input_sizes", sizes},
          {"input_dtypes", std::vector<std::string>(sizes.size(), "Float")}};
}

std::string trace(const std::vector<json>& entries) {
  return json{{"version", "2.10"}, {"entries", entries}}.dump();
}

std::vector<Collective> counted(std::string_view trace) { return collectives_in(trace).counted; }

// "2 allreduce Float [[3]]"
std::vector<std::string> texts(const std::vector<Collective>& collectives) {
  std::vector<std::string> lines;
  for (const auto& one : collectives) {
    lines.push_back(std::to_string(one.count) + " " + one.op + " " + one.dtype + " " +
                    json(one.sizes).dump());
  }
  return lines;
}

TEST(CollectivesTest, CountsEqualCollectivesInOrderOfFirstAppearance) {
  auto doubles = entry(5, "gloo:all_reduce", {{3}});
  doubles["input_dtypes"] = {"Double"};
  EXPECT_THAT(
      texts(counted(trace({entry(0, "gloo:broadcast", {{3}}), entry(1, "gloo:all_reduce", {{3}}),
                           entry(2, "gloo:broadcast", {{3}}), entry(3, "gloo:broadcast", {{3, 1}}),
                           entry(4, "gloo:barrier", {}), doubles}))),
      ElementsAre("2 broadcast Float [[3]]", "1 allreduce Float [[3]]", "1 broadcast Float [[3,1]]",
                  "1 barrier  []", "1 allreduce Double [[3]]"));
}

// "0: 2 allreduce Float [[3]], under way"
std::vector<std::string> stretches(const CollectiveRecord& record) {
  std::vector<std::string> lines;
  for (const CollectiveStretch& one : record.stretches) {
    lines.push_back(one.group + ": " + texts({one.collective}).front() +
                    (one.has_ended ? "" : ", under way"));
  }
  return lines;
}

TEST(CollectivesTest, EqualCollectivesOfAGroupInARowAreOneStretch) {
  auto of_another_group = entry(1, "gloo:all_reduce", {{3}});
  of_another_group["process_group"] = {"1", "undefined"};
  const auto record = collectives_in(
      trace({entry(0, "gloo:all_reduce", {{3}}), of_another_group,
             entry(2, "gloo:all_reduce", {{3}}), entry(3, "gloo:barrier", {}),
             entry(4, "gloo:all_reduce", {{3}}), entry(5, "gloo:all_reduce", {{3}}, false)}));
  EXPECT_THAT(stretches(record),
              ElementsAre("0: 2 allreduce Float [[3]]", "1: 1 allreduce Float [[3]]",
                          "0: 1 barrier  []", "0: 2 allreduce Float [[3]], under way"));
  EXPECT_EQ(record.stretches.at(0).description, "default_pg");
  EXPECT_TRUE(record.is_whole);
}

TEST(CollectivesTest, RecordWithDroppedEntriesIsNotWhole) {
  EXPECT_FALSE(collectives_in(trace({entry(7, "gloo:barrier", {})})).is_whole);
  std::vector<json> entries;
  for (int i = 0; i < 2001; ++i) entries.push_back(entry(i, "gloo:broadcast", {{i}}));
  EXPECT_FALSE(collectives_in(trace(entries)).is_whole);
  entries.pop_back();
  EXPECT_TRUE(collectives_in(trace(entries)).is_whole);
  // A frame cannot contain 2,000 lists of 100 sizes.
  for (json& one : entries) {
    one["input_sizes"] = Sizes(100, {one.at("record_id").get<std::int64_t>()});
    one["input_dtypes"] = std::vector<std::string>(100, "Float");
  }
  EXPECT_FALSE(collectives_in(trace(entries)).is_whole);
}

TEST(CollectivesTest, OpsAreNamedAfterBackendMethods) {
  const auto op = [](const char* name) { return counted(trace({entry(0, name, {{1}})})).at(0).op; };
  EXPECT_EQ(op("gloo:all_gather"), "allgather");
  EXPECT_EQ(op("gloo:all_to_all"), "alltoall");
  EXPECT_EQ(op("gloo:sparse_all_reduce"), "allreduce_sparse");
  EXPECT_EQ(op("gloo:reduce"), "reduce");
  EXPECT_EQ(op("nccl:_reduce_oop"), "_reduce_oop");
}

TEST(CollectivesTest, NamesAllDtypesIfTheyDiffer) {
  auto mixed = entry(0, "gloo:all_reduce", {{1}, {2}});
  mixed["input_dtypes"] = {"Float", "Int"};
  EXPECT_EQ(counted(trace({mixed})).at(0).dtype, "Float, Int");
}

TEST(CollectivesTest, CountsDroppedRecords) {
  EXPECT_THAT(texts(counted(trace({entry(7, "gloo:barrier", {})}))),
              ElementsAre("1 barrier  []", "7 (forgotten)  []"));
}

TEST(CollectivesTest, AnEmptyTraceHasNoCollectives) {
  EXPECT_TRUE(counted(R"({"version": "2.10"})").empty());
  EXPECT_EQ(last_collective_in(R"({"version": "2.10"})"), "no collective has run");
}

TEST(CollectivesTest, ThrowsForAMalformedTrace) {
  EXPECT_THROW(collectives_in("garbage"), std::exception);
  EXPECT_THROW(last_collective_in(R"({"entries": [{}]})"), std::exception);
}

TEST(CollectivesTest, PrintsALineForEachUnfinishedCollective) {
  EXPECT_EQ(last_collective_in(
                trace({entry(0, "gloo:barrier", {}, false), entry(1, "gloo:broadcast", {{3}}),
                       entry(2, "gloo:all_reduce", {{3, 2}, {}}, false)})),
            "barrier, number 1 of group default_pg, has not completed: no tensors\n"
            "allreduce, number 3 of group default_pg, has not completed: Float [3, 2] []");
}

TEST(CollectivesTest, PrintsOneLineForEqualUnfinishedCollectives) {
  std::vector<json> entries = {entry(0, "gloo:barrier", {})};
  for (int i = 1; i < 5; ++i) entries.push_back(entry(i, "gloo:reduce", {{1}}, false));
  entries.push_back(entry(5, "gloo:reduce", {{2}}, false));
  EXPECT_EQ(last_collective_in(trace(entries)),
            "reduce, numbers 2 to 5 of group default_pg, have not completed: Float [1]\n"
            "reduce, number 6 of group default_pg, has not completed: Float [2]");
}

TEST(CollectivesTest, PrintsTheLastCollectiveIfAllCompleted) {
  EXPECT_EQ(
      last_collective_in(trace({entry(0, "gloo:barrier", {}), entry(1, "gloo:broadcast", {{3}})})),
      "nothing is under way; the last collective, broadcast, number 2 of group default_pg, "
      "has completed: Float [3]");
}

// Ranks are threads and share the process's recorder, so the list has the collectives of both.
class RecordedGroupTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { record_collectives(); }

  // Calls `act` on each rank with its group.
  template <class Act>
  static void on_ranks(int ranks, const Act& act) {
    const auto store = c10::make_intrusive<c10d::HashStore>();
    std::vector<std::future<void>> all;
    for (int rank = 0; rank < ranks; ++rank) {
      all.push_back(std::async(std::launch::async, [&, rank] {
        act(*make_gloo_backend(
            {.store = store, .rank = rank, .size = ranks, .timeout = std::chrono::seconds(30)}));
      }));
    }
    for (auto& one : all) one.get();
  }

  static int count_of(const std::string& line) {
    for (const auto& one : collectives_made().counted) {
      auto counted = one;
      counted.count = 0;
      if (texts({counted}).front() == "0 " + line) return one.count;
    }
    return 0;
  }
};

void all_reduce(c10d::Backend& group, at::IntArrayRef shape) {
  std::vector<at::Tensor> tensors = {at::ones(shape)};
  group.allreduce(tensors)->wait();
}

TEST_F(RecordedGroupTest, RecordsTheCollectivesOfOneRank) {
  on_ranks(1, [](c10d::Backend& group) {
    all_reduce(group, {11});
    all_reduce(group, {11});
    all_reduce(group, {11, 2});
  });
  EXPECT_EQ(count_of("allreduce Float [[11]]"), 2);
  EXPECT_EQ(count_of("allreduce Float [[11,2]]"), 1);
}

TEST_F(RecordedGroupTest, RecordsTheCollectivesOfTwoRanks) {
  on_ranks(2, [](c10d::Backend& group) { all_reduce(group, {13}); });
  EXPECT_EQ(count_of("allreduce Float [[13]]"), 2);
  EXPECT_THAT(last_collective_in(collectives_trace()), HasSubstr("nothing is under way"));
}

TEST_F(RecordedGroupTest, KeepsMoreThanTheRecordersDefault) {
  on_ranks(1, [](c10d::Backend& group) {
    for (int i = 0; i < 2100; ++i) all_reduce(group, {17});
  });
  EXPECT_EQ(count_of("allreduce Float [[17]]"), 2100);
}

TEST_F(RecordedGroupTest, ACollectiveThatPeersHaveNotJoinedIsUnfinished) {
  std::promise<void> seen;
  on_ranks(2, [&](c10d::Backend& group) {
    if (group.getRank() == 1) {
      seen.get_future().wait_for(std::chrono::seconds(30));
      return all_reduce(group, {19});
    }
    std::vector<at::Tensor> tensors = {at::ones({19})};
    const auto work = group.allreduce(tensors);
    EXPECT_THAT(last_collective_in(collectives_trace()),
                HasSubstr("has not completed: Float [19]"));
    seen.set_value();
    work->wait();
  });
}

}  // namespace
}  // namespace distrun

#include "evidence/flight/flight_record.h"

#include <gtest/gtest.h>

#include "evidence/operations/collective_table.h"

namespace distrun {
namespace {

using nlohmann::json;

json entry(int sequence, const char* state = "scheduled") {
  return {{"record_id", sequence - 1},
          {"pg_id", 0},
          {"process_group", {"0", "default_pg"}},
          {"collective_seq_id", sequence},
          {"is_p2p", false},
          {"profiling_name", "nccl:all_reduce"},
          {"input_sizes", {{1024, 2}}},
          {"input_dtypes", {"Float"}},
          {"time_created_ns", 1'000 * sequence},
          {"time_discovered_completed_ns", nullptr},
          {"state", state},
          {"retired", false}};
}

json dump(json entries) {
  return {{"version", "2.10"},
          {"pg_config", {{"0", {{"ranks", "[0, 1, 2]"}}}}},
          {"pg_status", {{"0", {{"last_completed_collective", -1}}}}},
          {"entries", std::move(entries)}};
}

std::vector<Operation> operations_of(const json& dump, int world_size) {
  return flight_record(dump, world_size).operations;
}

TEST(FlightRecordTest, ReadsACollective) {
  json finished = entry(1, "completed");
  finished["time_discovered_completed_ns"] = 5'000;
  const auto operations = operations_of(dump({finished, entry(2)}), 8);
  ASSERT_EQ(operations.size(), 2U);
  EXPECT_EQ(text_of(operations[1]), "all_reduce, number 2 of group 0 (Float [1024, 2])");
  EXPECT_EQ(operations[1].group_size, 3);
  EXPECT_EQ(operations[1].number, 2U);
  EXPECT_TRUE(operations[1].is_in_progress());
  EXPECT_EQ(operations[1].began, OperationTime(std::chrono::microseconds(2)));
  EXPECT_EQ(operations[0].ended, OperationTime(std::chrono::microseconds(5)));
}

TEST(FlightRecordTest, ACollectiveThatIsRetiredHasEnded) {
  json retired = entry(1);
  retired["retired"] = true;
  EXPECT_FALSE(operations_of(dump({retired}), 1)[0].is_in_progress());
}

TEST(FlightRecordTest, PartsOfACoalescedCollectiveEndWithIt) {
  json all = dump({entry(1), entry(2)});
  all["pg_status"]["0"]["last_completed_collective"] = 1;
  const auto operations = operations_of(all, 1);
  EXPECT_FALSE(operations[0].is_in_progress());
  EXPECT_TRUE(operations[1].is_in_progress());
}

TEST(FlightRecordTest, UsesTheNamesOfPython) {
  const auto name = [](const char* profiling_name) {
    json one = entry(1);
    one["profiling_name"] = profiling_name;
    return operations_of(dump({one}), 1)[0].op;
  };
  EXPECT_EQ(name("nccl:_all_gather_base"), "all_gather_into_tensor");
  EXPECT_EQ(name("nccl:_reduce_scatter_base"), "reduce_scatter_tensor");
  EXPECT_EQ(name("nccl:all_reduce_barrier"), "barrier");
  EXPECT_EQ(name("gloo:broadcast"), "broadcast");
  EXPECT_EQ(name("coalesced"), "coalesced");
}

TEST(FlightRecordTest, ASendHasAPeerAndNoKnownEnd) {
  json send = entry(1), receive = entry(1);
  send["is_p2p"] = receive["is_p2p"] = true;
  send["profiling_name"] = "nccl:send 0->1";
  receive["profiling_name"] = "nccl:recv 0<-2";
  const auto operations = operations_of(dump({send, receive}), 1);
  EXPECT_EQ(text_of(operations[0]), "send to rank 1 of group 0 (Float [1024, 2])");
  EXPECT_EQ(text_of(operations[1]), "recv from rank 2 of group 0 (Float [1024, 2])");
  EXPECT_FALSE(operations[0].is_in_progress());
}

TEST(FlightRecordTest, TheDefaultGroupHasAllRanks) {
  json all = dump({entry(1)});
  all.erase("pg_config");
  EXPECT_EQ(operations_of(all, 8)[0].group_size, 8);
}

TEST(FlightRecordTest, ReadsTheMembersOfGroups) {
  json all = dump(json::array());
  all["pg_config"]["1"] = {{"ranks", "[1, 3]"}};
  all["pg_config"]["2"] = {{"ranks", "[1, "}};
  EXPECT_EQ(flight_record(all, 4).members,
            (std::map<std::string, std::set<int>>{{"0", {0, 1, 2}}, {"1", {1, 3}}}));
}

TEST(FlightRecordTest, TextsArePrintableAndShort) {
  json odd = entry(1);
  odd["profiling_name"] = "nccl:\x1b[31m\n" + std::string(3'000, 'a');
  odd["process_group"] = {std::string(3'000, 'b'), ""};
  odd["input_sizes"] = {std::vector<int>(3'000, 1)};
  odd["input_dtypes"] = {std::string(3'000, 'c')};
  const std::string text = text_of(operations_of(dump({odd}), 1)[0]);
  EXPECT_LT(text.size(), 600U);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_EQ(text.find('\n'), std::string::npos);
}

TEST(FlightRecordTest, KeepsTheFirstInProgressAndTheLastOfEachGroup) {
  json other = entry(7);
  other["process_group"] = {"1", ""};
  const auto kept = first_and_last(
      operations_of(dump({entry(1, "completed"), entry(2), entry(3), entry(4), other}), 1));
  ASSERT_EQ(kept.size(), 3U);
  EXPECT_EQ(kept[0].sequence, 2U);
  EXPECT_EQ(kept[1].sequence, 4U);
  EXPECT_EQ(kept[2].sequence, 7U);
}

TEST(FlightRecordTest, LeavesOutWhatItDoesNotUnderstand) {
  json nameless = entry(1), groupless = entry(1), timeless = entry(1), zero = entry(0);
  nameless["profiling_name"] = 3;
  groupless["process_group"] = json::array();
  timeless.erase("time_created_ns");
  EXPECT_TRUE(operations_of(dump({nameless, groupless, timeless, zero, 7}), 1).empty());
  EXPECT_TRUE(operations_of(json(3), 1).empty());
  EXPECT_TRUE(operations_of({{"entries", 3}}, 1).empty());
}

}  // namespace
}  // namespace distrun

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

TEST(FlightRecordTest, ReadsACollective) {
  json finished = entry(1, "completed");
  finished["time_discovered_completed_ns"] = 5'000;
  const auto operations = operations_in(dump({finished, entry(2)}), 8);
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
  EXPECT_FALSE(operations_in(dump({retired}), 1)[0].is_in_progress());
}

TEST(FlightRecordTest, PartsOfACoalescedCollectiveEndWithIt) {
  json all = dump({entry(1), entry(2)});
  all["pg_status"]["0"]["last_completed_collective"] = 1;
  const auto operations = operations_in(all, 1);
  EXPECT_FALSE(operations[0].is_in_progress());
  EXPECT_TRUE(operations[1].is_in_progress());
}

TEST(FlightRecordTest, UsesTheNamesOfPython) {
  const auto name = [](const char* profiling_name) {
    json one = entry(1);
    one["profiling_name"] = profiling_name;
    return operations_in(dump({one}), 1)[0].op;
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
  const auto operations = operations_in(dump({send, receive}), 1);
  EXPECT_EQ(text_of(operations[0]), "send to rank 1 of group 0 (Float [1024, 2])");
  EXPECT_EQ(text_of(operations[1]), "recv from rank 2 of group 0 (Float [1024, 2])");
  EXPECT_FALSE(operations[0].is_in_progress());
}

TEST(FlightRecordTest, TheDefaultGroupHasAllRanks) {
  json all = dump({entry(1)});
  all.erase("pg_config");
  EXPECT_EQ(operations_in(all, 8)[0].group_size, 8);
}

TEST(FlightRecordTest, LeavesOutWhatItDoesNotUnderstand) {
  json nameless = entry(1), groupless = entry(1), timeless = entry(1), zero = entry(0);
  nameless["profiling_name"] = 3;
  groupless["process_group"] = json::array();
  timeless.erase("time_created_ns");
  EXPECT_TRUE(operations_in(dump({nameless, groupless, timeless, zero, 7}), 1).empty());
  EXPECT_TRUE(operations_in(json(3), 1).empty());
  EXPECT_TRUE(operations_in({{"entries", 3}}, 1).empty());
}

}  // namespace
}  // namespace distrun

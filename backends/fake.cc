#include "backends/fake.h"

#include <c10/util/Exception.h>

#include "backends/collective_checks.h"
#include "backends/fake_backend.h"
#include "backends/group_state.h"
#include "backends/run_collective.h"

namespace distrun {

namespace {

using internal::FakeBackend;
using internal::GroupState;

// None: the group has other backends.
FakeBackend* fake_of(const GroupState& state) {
  if (!state.process_group) return nullptr;
  for (const c10::Device device : state.process_group->getDeviceTypes()) {
    const auto backend = state.process_group->getBackend(device.type());
    if (auto* const fake = dynamic_cast<FakeBackend*>(backend.get())) return fake;
  }
  return nullptr;
}

internal::WireCount& count_of(const char* function, const Group& group) {
  group.process_group();  // Throws where there is none.
  const GroupState& state = internal::state_of(group);
  FakeBackend* const fake = fake_of(state);
  TORCH_CHECK_VALUE(fake != nullptr, function, ": ", internal::Described{group}, " has ",
                    state.backend, ", which does not count what it sends; expected fake");
  return fake->traffic();
}

std::vector<internal::WireCount*> all_counts() {
  std::vector<std::shared_ptr<GroupState>> groups = {
      internal::pinned(Group()).state()};  // Throws where there is none.
  for (const auto& each : internal::world()->groups) {
    if (auto state = each.lock()) groups.push_back(std::move(state));
  }
  std::vector<internal::WireCount*> counts;
  for (const auto& group : groups) {
    if (FakeBackend* const fake = fake_of(*group)) counts.push_back(&fake->traffic());
  }
  return counts;
}

}  // namespace

c10::intrusive_ptr<c10d::Store> FakeStore::clone() {
  return c10::intrusive_ptr<FakeStore>::reclaim_copy(this);
}

void FakeStore::set(const std::string& /*key*/, const std::vector<std::uint8_t>& /*value*/) {}

std::vector<std::uint8_t> FakeStore::compareSet(const std::string& /*key*/,
                                                const std::vector<std::uint8_t>& expected,
                                                const std::vector<std::uint8_t>& desired) {
  return expected.empty() ? desired : expected;
}

std::vector<std::uint8_t> FakeStore::get(const std::string& key) {
  TORCH_CHECK_WITH(DistStoreError, false, "get '", key,
                   "': a FakeStore keeps nothing, and nobody will ever set that; give the group "
                   "another store, as c10d::HashStore");
}

std::int64_t FakeStore::add(const std::string& /*key*/, std::int64_t value) { return value; }
bool FakeStore::deleteKey(const std::string& /*key*/) { return false; }
bool FakeStore::check(const std::vector<std::string>& keys) { return keys.empty(); }
std::int64_t FakeStore::getNumKeys() { return 0; }
void FakeStore::wait(const std::vector<std::string>& /*keys*/) {}
void FakeStore::wait(const std::vector<std::string>& /*keys*/,
                     const std::chrono::milliseconds& /*timeout*/) {}

std::vector<WireTraffic> wire_traffic(const Group& group) {
  return count_of("wire_traffic", group).list();
}

void reset_wire_traffic(const Group& group) { count_of("reset_wire_traffic", group).reset(); }

std::vector<WireTraffic> wire_traffic_of_all_groups() {
  std::vector<WireTraffic> sum;
  for (const auto* const count : all_counts()) {
    for (const WireTraffic& one : count->list()) internal::add_to(sum, one);
  }
  return sum;
}

void reset_wire_traffic_of_all_groups() {
  for (auto* const count : all_counts()) count->reset();
}

}  // namespace distrun

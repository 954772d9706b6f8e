#include "distrun/fake.h"

#include <c10/util/Exception.h>

#include "backends/fake/fake_backend.h"
#include "backends/group/collective_checks.h"
#include "backends/group/group_state.h"
#include "backends/group/run_collective.h"

namespace distrun {

namespace {

using internal::FakeBackend;
using internal::GroupState;

using FakePtr = c10::intrusive_ptr<FakeBackend>;

// Null if the group has other backends.
FakePtr fake_of(const GroupState& state) {
  if (!state.process_group) return {};
  for (const c10::Device device : state.process_group->getDeviceTypes()) {
    const auto backend = state.process_group->getBackend(device.type());
    if (auto fake = c10::dynamic_intrusive_pointer_cast<FakeBackend>(backend)) return fake;
  }
  return {};
}

FakePtr backend_of(const char* function, const Group& group) {
  group.process_group();  // Throws if there is none.
  const GroupState& state = internal::state_of(group);
  FakePtr fake = fake_of(state);
  TORCH_CHECK_VALUE(fake, function, ": ", internal::Described{group}, " uses ", state.backend,
                    ", which does not count traffic; use the backend fake");
  return fake;
}

std::vector<FakePtr> all_backends() {
  std::vector<std::shared_ptr<GroupState>> groups = {
      internal::GroupAccess::state(internal::pinned(Group()))};  // Throws if there is none.
  for (const auto& each : internal::world()->groups) {
    if (auto state = each.lock()) groups.push_back(std::move(state));
  }
  std::vector<FakePtr> backends;
  for (const auto& group : groups) {
    if (auto fake = fake_of(*group)) backends.push_back(std::move(fake));
  }
  return backends;
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
                   "': a FakeStore stores no values; create the default group with another store "
                   "(InitOptions::store), such as c10d::HashStore");
}

std::int64_t FakeStore::add(const std::string& /*key*/, std::int64_t value) { return value; }
bool FakeStore::deleteKey(const std::string& /*key*/) { return false; }
bool FakeStore::check(const std::vector<std::string>& keys) { return keys.empty(); }
std::int64_t FakeStore::getNumKeys() { return 0; }
void FakeStore::wait(const std::vector<std::string>& /*keys*/) {}
void FakeStore::wait(const std::vector<std::string>& /*keys*/,
                     const std::chrono::milliseconds& /*timeout*/) {}

std::vector<WireTraffic> wire_traffic(const Group& group) {
  return backend_of("wire_traffic", group)->traffic().list();
}

void reset_wire_traffic(const Group& group) {
  backend_of("reset_wire_traffic", group)->traffic().reset();
}

std::vector<WireTraffic> wire_traffic_of_all_groups() {
  std::vector<WireTraffic> sum;
  for (const FakePtr& backend : all_backends()) {
    for (const WireTraffic& one : backend->traffic().list()) internal::add_to(sum, one);
  }
  return sum;
}

void reset_wire_traffic_of_all_groups() {
  for (const FakePtr& backend : all_backends()) backend->traffic().reset();
}

}  // namespace distrun

#include "backends/shm/shm.h"

#include <algorithm>
#include <cstdint>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include <c10/util/Exception.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "backends/shm/host/host_meeting.h"
#include "backends/shm/shm_backend.h"
#include "backends/shm/shm_errors.h"
#include "common/deadline.h"
#include "common/text/rank_list.h"

namespace distrun::internal {

namespace {

template <class T>
T value_of(Result<T> result) {
  TORCH_CHECK_WITH(DistBackendError, result.has_value(), "shm: ", result.error().message);
  return std::move(*result);
}

std::string key_of(int rank) { return std::to_string(rank); }

// Throws c10::DistBackendError, which names the ranks that have not set their keys.
void wait_for_cards(const BackendRequest& request) {
  std::vector<std::string> keys;
  keys.reserve(static_cast<std::size_t>(request.size));
  for (int rank = 0; rank < request.size; ++rank) keys.push_back(key_of(rank));
  try {
    request.store->wait(keys, request.timeout);
  } catch (const std::exception&) {  // Stores throw different exceptions.
    std::vector<int> missing;
    for (int rank = 0; rank < request.size; ++rank) {
      if (!request.store->check({key_of(rank)})) {
        missing.push_back(request.ranks[static_cast<std::size_t>(rank)]);
      }
    }
    std::sort(missing.begin(), missing.end());
    TORCH_CHECK_WITH(DistBackendError, missing.empty(), "shm: ", list_of_ranks(missing),
                     " did not come within ", request.timeout.count(), "ms");
  }
}

std::vector<std::string> exchange_cards(const BackendRequest& request, const std::string& card) {
  request.store->set(key_of(request.rank), std::vector<std::uint8_t>(card.begin(), card.end()));
  wait_for_cards(request);
  std::vector<std::string> cards;
  cards.reserve(static_cast<std::size_t>(request.size));
  for (int rank = 0; rank < request.size; ++rank) {
    const std::vector<std::uint8_t> its = request.store->get(key_of(rank));
    cards.emplace_back(its.begin(), its.end());
  }
  return cards;
}

// The ranks have told each other where they are.
struct Told {
  std::chrono::steady_clock::time_point deadline;
  shm::HostMeeting meeting;
  std::vector<std::string> cards;
  std::vector<int> elsewhere;  // Global ranks on other hosts.
};

Told tell(const BackendRequest& request) {
  const auto deadline = deadline_after(request.timeout);
  auto meeting = value_of(shm::HostMeeting::open(request.rank, request.size));
  std::vector<std::string> cards = exchange_cards(request, meeting.card());
  std::vector<int> elsewhere;
  for (const int rank : meeting.elsewhere(cards)) {
    elsewhere.push_back(request.ranks[static_cast<std::size_t>(rank)]);
  }
  return {deadline, std::move(meeting), std::move(cards), std::move(elsewhere)};
}

c10::intrusive_ptr<c10d::Backend> join(const BackendRequest& request, Told told) {
  auto group = value_of(
      shm::HostGroup::join(told.meeting, request.rank, request.ranks, told.cards, told.deadline));
  leave_shm_store(request);
  // No rank may find an old card of another when it makes the next group with this store.
  shm::with_backend_errors([&] {
    group->run(told.deadline, [](auto& collectives, auto& watch) { collectives.barrier(watch); });
  });
  const std::shared_ptr<shm::HostGroup> shared(group.release(), &shm::HostGroup::destroy);
  auto options = c10::make_intrusive<c10d::Backend::Options>("shm", request.timeout);
  options->group_name = request.group_name;
  options->global_ranks_in_group.assign(request.ranks.begin(), request.ranks.end());
  return c10::make_intrusive<shm::ShmBackend>(request.rank, request.size, std::move(options),
                                              shared);
}

}  // namespace

c10::intrusive_ptr<c10d::Backend> make_shm_backend(const BackendRequest& request) {
  Told told = tell(request);
  TORCH_CHECK_WITH(DistBackendError, told.elsewhere.empty(),
                   "shm: ", told.elsewhere.empty() ? "" : list_of_ranks(told.elsewhere),
                   " and rank ", request.ranks[static_cast<std::size_t>(request.rank)],
                   " are on different hosts or in different network namespaces; use gloo");
  return join(request, std::move(told));
}

c10::intrusive_ptr<c10d::Backend> make_shm_backend_on_one_host(const BackendRequest& request) {
  Told told = tell(request);
  return told.elsewhere.empty() ? join(request, std::move(told)) : nullptr;
}

// Lets a later group use the same keys, as Python's default group does after
// destroy_process_group(). Requires that all ranks have met, and so have read the card.
void leave_shm_store(const BackendRequest& request) {
  try {
    request.store->deleteKey(key_of(request.rank));
  } catch (const std::exception&) {  // Some stores cannot.
    return;
  }
}

}  // namespace distrun::internal

namespace distrun::shm {

c10::intrusive_ptr<c10d::Backend> ShmBackend::split(const c10::intrusive_ptr<c10d::Store>& store,
                                                    const std::vector<int>& ranks,
                                                    const c10::intrusive_ptr<Options>& options) {
  const auto mine = std::find(ranks.begin(), ranks.end(), getRank());
  if (mine == ranks.end()) return nullptr;
  // Backends of other devices use the same store.
  BackendRequest request{.store = c10::make_intrusive<c10d::PrefixStore>("shm/", store),
                         .rank = static_cast<int>(mine - ranks.begin()),
                         .size = static_cast<int>(ranks.size()),
                         .timeout = options->timeout,
                         .group_name = options->group_name};
  for (const int rank : ranks) {
    request.ranks.push_back(
        static_cast<int>(options_->global_ranks_in_group.at(static_cast<std::size_t>(rank))));
  }
  return internal::make_shm_backend(request);
}

}  // namespace distrun::shm

#include "backends/shm/shm.h"

#include <algorithm>
#include <cstdint>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include <c10/util/Exception.h>

#include "backends/shm/one_host_backend.h"
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

// Follows the card. Printable.
constexpr const char* kSpansHosts = " spans-hosts";

bool spans_hosts(const std::string& card) { return card.ends_with(kSpansHosts); }

}  // namespace

ShmMeeting::ShmMeeting(BackendRequest request, std::chrono::steady_clock::time_point deadline,
                       shm::HostMeeting meeting, std::vector<std::string> cards)
    : request_(std::move(request)),
      deadline_(deadline),
      meeting_(std::move(meeting)),
      cards_(std::move(cards)),
      hosts_(shm::HostMeeting::hosts(cards_)),
      all_can_span_hosts_(std::all_of(cards_.begin(), cards_.end(), spans_hosts)),
      name_(shm::HostMeeting::secret(cards_[0])) {
  for (const int rank : meeting_.elsewhere(cards_)) {
    elsewhere_.push_back(request_.ranks[static_cast<std::size_t>(rank)]);
  }
}

ShmMeeting ShmMeeting::hold(const BackendRequest& request, CanSpanHosts can_span_hosts) {
  const auto deadline = deadline_after(request.timeout);
  auto meeting = value_of(shm::HostMeeting::open(request.rank, request.size));
  const char* more = can_span_hosts == CanSpanHosts::kYes ? kSpansHosts : "";
  auto cards = exchange_cards(request, meeting.card() + more);
  return {request, deadline, std::move(meeting), std::move(cards)};
}

void ShmMeeting::refuse() const {
  TORCH_CHECK_WITH(DistBackendError, false, "shm: ", list_of_ranks(elsewhere_), " and rank ",
                   request_.ranks[static_cast<std::size_t>(request_.rank)],
                   " are on different hosts or in different network namespaces, and a rank cannot "
                   "span hosts: its PyTorch has no Gloo, or Python splits a group");
}

std::shared_ptr<shm::HostGroup> ShmMeeting::join() {
  auto group =
      value_of(shm::HostGroup::join(meeting_, request_.rank, request_.ranks, cards_, deadline_));
  leave();
  // No rank may find an old card of another when it makes the next group with this store.
  shm::with_backend_errors([&] {
    group->run(deadline_, [](auto& collectives, auto& watch) { collectives.barrier(watch); });
  });
  return {group.release(), &shm::HostGroup::destroy};
}

// So no rank finds an old card of another when it makes the next group with this store.
void ShmMeeting::leave_together(c10d::Backend& backend) {
  backend.barrier({})->wait();  // All ranks have read the cards.
  leave();
  backend.barrier({})->wait();
}

void ShmMeeting::leave() {
  try {
    request_.store->deleteKey(key_of(request_.rank));
  } catch (const std::exception&) {  // Some stores cannot.
    return;
  }
}

c10::intrusive_ptr<c10d::Backend::Options> shm_options(const BackendRequest& request) {
  auto options = c10::make_intrusive<c10d::Backend::Options>("shm", request.timeout);
  options->group_name = request.group_name;
  options->global_ranks_in_group.assign(request.ranks.begin(), request.ranks.end());
  return options;
}

c10::intrusive_ptr<c10d::Backend> make_one_host_backend(const BackendRequest& request) {
  ShmMeeting meeting = ShmMeeting::hold(request, CanSpanHosts::kNo);
  if (!meeting.is_on_one_host()) meeting.refuse();
  return make_one_host_backend(request, meeting);
}

c10::intrusive_ptr<c10d::Backend> make_one_host_backend(const BackendRequest& request,
                                                        ShmMeeting& meeting) {
  return c10::make_intrusive<shm::OneHostBackend>(request.rank, request.size, shm_options(request),
                                                  meeting.join());
}

}  // namespace distrun::internal

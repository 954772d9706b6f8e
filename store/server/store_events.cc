#include "store/server/store_events.h"

#include <cstddef>
#include <utility>

#include "store/network/endpoint_text.h"

namespace distrun {

namespace {

constexpr std::size_t kEventsKept = 16;

template <class Event>
void remember(std::deque<Event>& events, Event event) {
  events.push_front(std::move(event));
  if (events.size() > kEventsKept) events.pop_back();
}

double in_seconds(StoreEvents::Clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

void StoreEvents::note_refused(const boost::asio::ip::tcp::endpoint& remote, const Error& reason) {
  ++refused_;
  remember(closed_, Closed{remote, Clock::now(), reason.message});
  if (on_refused_) on_refused_(text_of(remote), reason);
}

void StoreEvents::note_gave_up(const boost::asio::ip::tcp::endpoint& remote,
                               Clock::time_point wait_since, StoreWait wait) {
  const auto now = Clock::now();
  remember(gave_up_, GaveUp{remote, now, now - wait_since, std::move(wait)});
}

void StoreEvents::start_over() {
  gave_up_.clear();
  closed_.clear();
}

void StoreEvents::tell(StoreStatus& status, Clock::time_point now) const {
  status.refused = refused_;
  for (const GaveUp& event : gave_up_) {
    status.gave_up.push_back(
        {text_of(event.remote), in_seconds(now - event.at), in_seconds(event.waited), event.wait});
  }
  for (const Closed& event : closed_) {
    status.closed.push_back({text_of(event.remote), in_seconds(now - event.at), event.reason});
  }
}

}  // namespace distrun

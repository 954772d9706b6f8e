// StoreEvents remembers the last clients that were refused or gave up waiting.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <utility>

#include <boost/asio/ip/tcp.hpp>

#include "distrun/result.h"
#include "distrun/store_status.h"

namespace distrun {

class StoreEvents {
 public:
  using Clock = std::chrono::steady_clock;
  using OnRefused = std::function<void(const std::string& address, const Error& reason)>;

  // `on_refused` is called for each refusal; may be empty.
  explicit StoreEvents(OnRefused on_refused) : on_refused_(std::move(on_refused)) {}

  void note_refused(const boost::asio::ip::tcp::endpoint& remote, const Error& reason);
  void note_gave_up(const boost::asio::ip::tcp::endpoint& remote, Clock::time_point wait_since,
                    StoreWait wait);

  // Forgets everything but the number of refusals.
  void start_over();

  // Fills in `refused`, `gave_up` and `closed`.
  void tell(StoreStatus& status, Clock::time_point now) const;

 private:
  struct GaveUp {
    boost::asio::ip::tcp::endpoint remote;
    Clock::time_point at;
    Clock::duration waited;
    StoreWait wait;
  };
  struct Closed {
    boost::asio::ip::tcp::endpoint remote;
    Clock::time_point at;
    std::string reason;
  };

  const OnRefused on_refused_;
  std::deque<GaveUp> gave_up_;  // Latest first, as in closed_.
  std::deque<Closed> closed_;
  std::uint64_t refused_ = 0;
};

}  // namespace distrun

// RequestTurn limits a client's turn, because clients share the event loop, in a launcher also with
// signals and workers.
//
//     RequestTurn turn;
//     while (!turn.is_over() && …) turn.spend_on(request);
//
// A turn is about a thousand requests and keys, or one request that reads everything.
#pragma once

#include <cstddef>

#include "store/protocol/request.h"

namespace distrun {

class RequestTurn {
 public:
  void spend_on(const StoreRequest& request) {
    const bool is_long =
        request.code == RequestCode::kStatus || request.code == RequestCode::kListKeys;
    spent_ += is_long ? kTurn : 1 + request.keys.size();
  }

  bool is_over() const { return spent_ >= kTurn; }

 private:
  static constexpr std::size_t kTurn = 1024;
  std::size_t spent_ = 0;
};

}  // namespace distrun

// StoreRequestParser turns the bytes of one connection into requests.
//
//     StoreRequestParser parser(limits);
//     std::string_view unread = …;                  // received, not yet parsed
//     while (true) {
//       auto step = parser.next(unread);
//       if (!step) return drop(step.error());       // a malformed frame
//       if (*step == 0) break;                      // the request is incomplete
//       table.apply(peer, parser.request(), replies);
//       unread.remove_prefix(*step);
//     }
//
// It is incremental: after an incomplete request, the next call continues at the same field, so a
// client that sends byte by byte costs no more than others. A length is compared with its limit as
// soon as it is read.
//
// Pure: no sockets, no clock.  One parser a connection; not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "distrun/result.h"
#include "distrun/store_limits.h"
#include "store/protocol/request.h"

namespace distrun {

class StoreRequestParser {
 public:
  explicit StoreRequestParser(const StoreLimits& limits = {}) : limits_(limits) {}

  // Parses the request at the front of `bytes` into request(). Returns its size, or 0 if it is
  // incomplete: the next call must then pass the same bytes and more. Fails with kProtocol if the
  // bytes are malformed; the parser is then unusable.
  //
  // Only the first request of a connection must be validate, with its magic number.
  Result<std::size_t> next(std::string_view bytes);

  // Memory used by the present request. next() frees long lists.
  std::size_t bytes() const;

  // The request that next() found. Its views point into the bytes passed there.
  const StoreRequest& request() const { return request_; }

 private:
  // Places of texts, because the bytes may move between calls.
  struct Place {
    std::size_t offset;
    std::size_t size;
  };
  enum class Step { kDone, kNeedMore, kBad };  // kBad: error_ says why.

  Step begin(std::string_view bytes);
  Step read_field(std::string_view bytes, Field field);
  Step read_list(std::string_view bytes, bool with_values);
  Step read_text(std::string_view bytes, std::size_t bytes_max, std::string_view what,
                 std::vector<Place>& into);
  template <class Number>
  Step read_number(std::string_view bytes, Number& into);
  Step finish(std::string_view bytes);
  Step bad(std::string message);

  StoreLimits limits_;
  bool greeted_ = false;
  Error error_;
  StoreRequest request_;

  // Progress in the request at the front of the bytes.
  std::size_t taken_ = 0;  // Bytes parsed; 0 before its code.
  std::size_t field_ = 0;  // Index of its next field.
  std::vector<Place> keys_, values_;
  bool in_list_ = false;         // The count of its list has been read.
  std::uint64_t list_left_ = 0;  // Items of the list not yet read.
  bool value_is_next_ = false;   // The key of the pair has been read.
};

}  // namespace distrun

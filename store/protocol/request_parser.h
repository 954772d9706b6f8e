// StoreRequestParser turns the bytes of one connection into requests.
//
//     StoreRequestParser parser(limits);
//     std::string_view unread = …;                  // all bytes not yet taken
//     while (true) {
//       auto step = parser.next(unread);
//       if (!step) return drop(step.error());       // a malformed frame
//       if (*step == 0) break;                      // not all of a request is here yet
//       table.apply(peer, parser.request(), replies);
//       unread.remove_prefix(*step);
//     }
//
// It is incremental: where a request is not complete, the next call goes on
// behind the field that the last one stopped at, so a client that dribbles its
// bytes costs no more than one that does not.  A length is held against its
// limit before a byte of what it announces is waited for.
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

  // Looks for one whole request at the front of `bytes`.  Returns how many bytes it
  // took; request() then tells what it says.  Returns 0 where more bytes are needed:
  // the next call must begin with the same bytes, followed by more.  Fails with
  // kProtocol where no further byte could make a request of it; the connection is
  // of no use then.
  //
  // The first request of a connection must be validate, with the right number, and no other may be.
  Result<std::size_t> next(std::string_view bytes);

  // What it keeps in memory of its own, for a request in the making or just made.  Large lists are
  // given back by the next call of next().
  std::size_t bytes() const;

  // The request found by the last call of next() that returned more than 0.  Its
  // views point into the bytes given there.
  const StoreRequest& request() const { return request_; }

 private:
  // Texts found so far are kept as places, because the bytes may move between two calls.
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

  // How far the request at the front of the bytes has been understood.
  std::size_t taken_ = 0;  // Bytes; 0 where its code is still to come.
  std::size_t field_ = 0;  // Its next field.
  std::vector<Place> keys_, values_;
  bool in_list_ = false;         // The count of its list has been read …
  std::uint64_t list_left_ = 0;  // … and so many items have not.
  bool value_is_next_ = false;   // Of the first of these, the key has been read.
};

}  // namespace distrun

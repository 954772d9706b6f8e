// The store's fuzz target: any bytes at all, as those of a connection, leave parser and table
// sound.
//
// The first byte says into how large pieces the rest is cut; the rest is what a client sends.  The
// bytes go to a parser whole and to another in pieces: both must find the same requests, the same
// bytes as writing them anew makes, and the same error at the same place.  Each request is then
// applied to a table by one of three peers.  A ping's number says which of them speaks from there
// on and, by its highest bit, that this peer leaves and another comes in its place.
//
// What does not hold is printed, and the process aborted.  cmake/fuzz.sh links this with libFuzzer;
// fuzz_corpus_test.cc calls it for every file of corpus/.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "common/units.h"
#include "store/protocol/request_parser.h"
#include "store/table/table.h"
#include "store/test/frames.h"

namespace distrun {
namespace {

using testing::bytes_of;
using testing::frame;
using testing::text;

// Small, so that a few bytes reach beyond them.
constexpr StoreLimits kLimits{.key_bytes_max = 16,
                              .value_bytes_max = 64,
                              .keys_max = 4,
                              .request_bytes_max = 192,
                              .reply_bytes_max = 384,
                              .memory_bytes_max = 4 * kKiB};

void must(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "store_fuzz: it does not hold that %s\n", what);
  std::abort();
}

// A request as its client has written it.
std::string written(const StoreRequest& request) {
  std::string fields;
  std::size_t key = 0, value = 0;
  const auto next_key = [&] {
    must(key < request.keys.size(), "a request has its keys");
    must(request.keys[key].size() <= kLimits.key_bytes_max, "a key is within its limit");
    return text(request.keys[key++]);
  };
  const auto next_value = [&] {
    must(value < request.values.size(), "a request has its values");
    must(request.values[value].size() <= kLimits.value_bytes_max, "a value is within its limit");
    return text(request.values[value++]);
  };
  must(request_index(request.code) < kRequestCount, "a request is one of the table");
  for (const Field field : request_spec(request.code).fields) {
    switch (field) {
      case Field::kKey:
        fields += next_key();
        break;
      case Field::kValue:
        fields += next_value();
        break;
      case Field::kKeys:
      case Field::kEntries:
        must(request.keys.size() <= kLimits.keys_max, "a list is within its limit");
        fields += bytes_of<std::uint64_t>(request.keys.size());
        while (key < request.keys.size()) {
          fields += next_key();
          if (field == Field::kEntries) fields += next_value();
        }
        break;
      case Field::kInt64:
        fields += bytes_of(request.number);
        break;
      case Field::kUint32:
        fields += bytes_of(static_cast<std::uint32_t>(request.number));
        break;
      case Field::kNone:
        break;
    }
  }
  must(key == request.keys.size() && value == request.values.size(), "a request has no more texts");
  return frame(request.code, fields);
}

// How far a parser came.
struct Parsed {
  std::size_t requests = 0, bytes = 0;
  std::string error;  // Empty where there was none.

  bool operator==(const Parsed&) const = default;
};

using OnRequest = std::function<void(const StoreRequest&)>;

// Parses `bytes`, of which each piece comes together with what is left of those before it.
Parsed parse(std::string_view bytes, const std::function<std::size_t()>& size_of_piece,
             const OnRequest& on_request) {
  StoreRequestParser parser(kLimits);
  Parsed parsed;
  for (std::size_t come = 0; come < bytes.size();) {
    come = std::min(bytes.size(), come + size_of_piece());
    // In memory of their own, where the sanitizer sees a read beyond their end.
    const std::vector<char> unread(bytes.begin() + static_cast<std::ptrdiff_t>(parsed.bytes),
                                   bytes.begin() + static_cast<std::ptrdiff_t>(come));
    std::string_view rest(unread.data(), unread.size());
    while (true) {
      const auto step = parser.next(rest);
      if (!step) {
        parsed.error = step.error().message;
        must(!parsed.error.empty(), "an error has a message");
        return parsed;
      }
      if (*step == 0) break;
      must(*step <= rest.size(), "a request takes no more bytes than there are");
      const StoreRequest& request = parser.request();
      must((request.code == RequestCode::kValidate) == (parsed.requests == 0),
           "the first request is validate, and no other");
      must(written(request) == rest.substr(0, *step), "a request says what its bytes say");
      on_request(request);
      rest.remove_prefix(*step);
      parsed.bytes += *step;
      ++parsed.requests;
    }
    must(rest.size() <= kLimits.request_bytes_max + sizeof(std::uint64_t),
         "no more is waited for than one request may have");
  }
  return parsed;
}

// A table, its peers, and what they know of it.
class Store : private ReplySink {
 public:
  void apply(const StoreRequest& request) {
    if (request.code == RequestCode::kPing) {
      speaks_ = static_cast<std::size_t>(request.number) % peers_.size();
      if ((request.number & 0x80000000) != 0) leave(peers_[speaks_]);
    }
    keys_.insert(request.keys.begin(), request.keys.end());
    Peer& peer = peers_[speaks_];
    const bool applied = table_.apply(peer.id, request, *this).has_value();
    if (applied) look_at_answer(peer, request);
    for (Peer& other : peers_) {
      if (&other != &peer) look_at_wake_up(other, other.replies);
      other.replies.clear();
    }
    if (!applied) leave(peer);
    look_at_table();
  }

  void end() {
    for (Peer& peer : peers_) leave(peer);
    must(table_.waiting_count() == 0, "who is gone does not wait");
    Peer& last = peers_[0];
    for (const std::string& key : keys_) {
      StoreRequest request{.code = RequestCode::kDeleteKey, .keys = {key}};
      (void)table_.apply(last.id, request, *this);
      request.code = RequestCode::kQueuePop;
      do {
        last.replies.clear();
        (void)table_.apply(last.id, request, *this);
      } while (last.replies != bytes_of<std::int64_t>(0));
    }
    must(table_.key_count() == 0, "a deleted key is gone");
    must(table_.bytes() == 0, "what is deleted takes no memory");
  }

 private:
  struct Peer {
    PeerId id;
    bool waits = false;
    std::string replies;
  };

  std::string& replies_to(PeerId id) override {
    for (Peer& peer : peers_) {
      if (peer.id == id) return peer.replies;
    }
    must(false, "replies go to peers that are there");
    std::abort();
  }

  void leave(Peer& peer) {
    table_.forget(peer.id);
    peer = {.id = ++last_id_};
  }

  void look_at_answer(Peer& peer, const StoreRequest& request) {
    must(peer.replies.size() <= kLimits.reply_bytes_max + 1, "a reply is within its limit");
    std::string_view rest = peer.replies;
    switch (request.code) {
      case RequestCode::kWait:
      case RequestCode::kBarrier:
        must(rest.empty() || rest == std::string_view("\0", 1), "a wait is answered by its end");
        peer.waits = rest.empty();
        return;
      case RequestCode::kCancelWait:
        must(rest == "\1", "cancel_wait is answered");
        peer.waits = false;
        return;
      case RequestCode::kCheck:
        must(!rest.empty() && (rest[0] == 0 || rest[0] == 1), "check is answered by yes or no");
        rest.remove_prefix(1);
        break;
      case RequestCode::kPing:
        must(rest == bytes_of(static_cast<std::uint32_t>(request.number)), "ping is answered");
        return;
      case RequestCode::kGetNumKeys:
        must(take_number(rest) == table_.key_count(), "get_num_keys counts the keys");
        break;
      case RequestCode::kAdd:
      case RequestCode::kDeleteKey:
      case RequestCode::kQueueLen:
        take_number(rest);
        break;
      case RequestCode::kGet:
      case RequestCode::kCompareSet:
        take_text(rest, kLimits.value_bytes_max);
        break;
      case RequestCode::kQueuePop:
        if (take_number(rest) > 0) take_text(rest, kLimits.value_bytes_max);
        break;
      case RequestCode::kMultiGet:
        for (std::size_t i = 0; i < request.keys.size(); ++i) {
          take_text(rest, kLimits.value_bytes_max);
        }
        break;
      case RequestCode::kListKeys: {
        const std::uint64_t count = take_number(rest);
        must(count == table_.key_count(), "list_keys lists all");
        for (std::uint64_t i = 0; i < count; ++i) take_text(rest, kLimits.key_bytes_max);
        break;
      }
      case RequestCode::kValidate:
      case RequestCode::kSet:
      case RequestCode::kAppend:
      case RequestCode::kMultiSet:
      case RequestCode::kQueuePush:
        break;
      default:
        return;  // Not one of c10d's.
    }
    look_at_wake_up(peer, rest);  // It may have woken itself.
  }

  static void look_at_wake_up(Peer& peer, std::string_view rest) {
    if (rest.empty()) return;
    must(rest == std::string_view("\0", 1), "who has asked nothing is only told to stop waiting");
    must(peer.waits, "only who waits is told to stop");
    peer.waits = false;
  }

  void look_at_table() const {
    const auto waiting =
        std::count_if(peers_.begin(), peers_.end(), [](const Peer& peer) { return peer.waits; });
    must(table_.waiting_count() == static_cast<std::size_t>(waiting),
         "who has had no answer to a wait waits");
    for (const Peer& peer : peers_) {
      constexpr std::size_t kNamed = 2;
      const auto wait = table_.wait_of(peer.id, kNamed);
      must(wait.has_value() == peer.waits, "what is waited for is known of those that wait");
      if (!wait) continue;
      must(wait->keys_left > 0, "who waits waits for something");
      must(wait->keys.size() == std::min(kNamed, wait->keys_left), "what is missing is named");
    }
    must(table_.bytes() <= kLimits.memory_bytes_max, "the table is within its limit");
  }

  static std::uint64_t take_number(std::string_view& rest) {
    std::uint64_t number = 0;
    must(rest.size() >= sizeof(number), "an answer is whole");
    std::memcpy(&number, rest.data(), sizeof(number));
    rest.remove_prefix(sizeof(number));
    return number;
  }

  static void take_text(std::string_view& rest, std::size_t bytes_max) {
    const std::uint64_t size = take_number(rest);
    must(size <= bytes_max, "what is kept is within its limit");
    must(size <= rest.size(), "an answer is whole");
    rest.remove_prefix(static_cast<std::size_t>(size));
  }

  StoreTable table_{kLimits};
  std::array<Peer, 3> peers_{{{.id = 1}, {.id = 2}, {.id = 3}}};
  PeerId last_id_ = 3;
  std::set<std::string> keys_;  // All that requests have named.
  std::size_t speaks_ = 0;
};

void feed(std::uint8_t cut, std::string_view bytes) {
  Store store;
  const Parsed whole = parse(
      bytes, [&] { return bytes.size(); },
      [&](const StoreRequest& request) { store.apply(request); });
  store.end();

  std::uint32_t state = cut;
  const auto piece = [&] {
    state = state * 1664525 + 1013904223;
    return std::size_t{1} + (state >> 16) % (std::size_t{1} + cut);
  };
  must(parse(bytes, piece, [](const StoreRequest&) {}) == whole,
       "the same requests and errors are found however the bytes are cut");
}

}  // namespace
}  // namespace distrun

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > 0) distrun::feed(data[0], {reinterpret_cast<const char*>(data) + 1, size - 1});
  return 0;
}

// The store's fuzz target: no input may break the parser or the table.
//
// The first byte is the size of the pieces into which the rest, a client's input, is cut. One
// parser gets it whole, another in pieces: both must find the same requests, and the same error at
// the same place. A request, written again, must give the same bytes. One of three peers then
// applies each request to a table: the number of a ping selects the peer that continues, and its
// highest bit replaces this peer with a new one.
//
// A broken invariant is printed and aborts the process. cmake/fuzz.sh links this with libFuzzer;
// fuzz_corpus_test.cc runs it on every file of corpus/.
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

// Small, so that a few bytes exceed them.
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

struct Parsed {
  std::size_t requests = 0, bytes = 0;
  std::string error;  // May be empty.

  bool operator==(const Parsed&) const = default;
};

using OnRequest = std::function<void(const StoreRequest&)>;

// Feeds `bytes` to a parser in pieces, each with the unparsed rest before it.
Parsed parse(std::string_view bytes, const std::function<std::size_t()>& size_of_piece,
             const OnRequest& on_request) {
  StoreRequestParser parser(kLimits);
  Parsed parsed;
  for (std::size_t come = 0; come < bytes.size();) {
    come = std::min(bytes.size(), come + size_of_piece());
    // A separate block, so that the sanitizer sees reads beyond its end.
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

// A table, its peers, and their expectations.
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
    must(table_.waiting_count() == 0, "a peer that left does not wait");
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
    must(table_.bytes() == 0, "an empty table counts no bytes");
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
    must(false, "replies go to connected peers");
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
        return;  // distrun's status.
    }
    look_at_wake_up(peer, rest);  // Its own request may have woken it.
  }

  static void look_at_wake_up(Peer& peer, std::string_view rest) {
    if (rest.empty()) return;
    must(rest == std::string_view("\0", 1),
         "a peer that asks nothing gets nothing but the end of its wait");
    must(peer.waits, "only the wait of a waiting peer ends");
    peer.waits = false;
  }

  void look_at_table() const {
    const auto waiting =
        std::count_if(peers_.begin(), peers_.end(), [](const Peer& peer) { return peer.waits; });
    must(table_.waiting_count() == static_cast<std::size_t>(waiting),
         "a peer waits until its wait is answered");
    for (const Peer& peer : peers_) {
      constexpr std::size_t kNamed = 2;
      const auto wait = table_.wait_of(peer.id, kNamed);
      must(wait.has_value() == peer.waits,
           "the table knows the waits of waiting peers, and no others");
      if (!wait) continue;
      must(wait->keys_left > 0, "a waiting peer waits for a key");
      must(wait->keys.size() == std::min(kNamed, wait->keys_left), "missing keys are named");
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
    must(size <= bytes_max, "a stored text is within its limit");
    must(size <= rest.size(), "an answer is whole");
    rest.remove_prefix(static_cast<std::size_t>(size));
  }

  StoreTable table_{kLimits};
  std::array<Peer, 3> peers_{{{.id = 1}, {.id = 2}, {.id = 3}}};
  PeerId last_id_ = 3;
  std::set<std::string> keys_;  // All keys in requests.
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

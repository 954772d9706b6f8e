// For tests: random requests to a store, equal on every machine for the same seed.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "backends/test/store_raw_client.h"
#include "distrun/store_limits.h"
#include "store/protocol/request.h"

namespace distrun::testing {

using namespace std::string_view_literals;

// Unlike the standard library's distributions, gives the same numbers everywhere.
class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}

  std::size_t below(std::size_t bound) { return engine_() % bound; }
  bool one_in(std::size_t times) { return below(times) == 0; }
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(below(static_cast<std::size_t>(high - low) + 1));
  }
  template <class Range>
  auto& pick(Range& range) {
    return range[below(std::size(range))];
  }

 private:
  std::mt19937_64 engine_;
};

struct Weight {
  RequestCode code;
  std::size_t weight;
};

inline constexpr Weight kWeights[] = {
    {RequestCode::kSet, 8},        {RequestCode::kCompareSet, 8}, {RequestCode::kGet, 7},
    {RequestCode::kAdd, 7},        {RequestCode::kCheck, 6},      {RequestCode::kWait, 18},
    {RequestCode::kGetNumKeys, 3}, {RequestCode::kDeleteKey, 14}, {RequestCode::kAppend, 4},
    {RequestCode::kMultiGet, 4},   {RequestCode::kMultiSet, 3},   {RequestCode::kCancelWait, 2},
    {RequestCode::kPing, 1},       {RequestCode::kQueuePush, 10}, {RequestCode::kQueuePop, 8},
    {RequestCode::kQueueLen, 3},   {RequestCode::kListKeys, 3},   {RequestCode::kBarrier, 9},
};

// Draws from few keys and values, so that requests affect each other.
class RequestSource {
 public:
  explicit RequestSource(Random& random) : random_(random) {
    const std::string longest(StoreLimits().key_bytes_max, 'L');
    const std::string_view keys[] = {"",       "k",        "queue", "a/b//0", "\0"sv,
                                     "k\0k"sv, "\xff\xfe", "init/", longest};
    for (std::size_t count = 2 + random.below(4); count > 0; --count) {
      keys_.emplace_back(random.pick(keys));
    }
    for (std::size_t count = 3 + random.below(4); count > 0; --count) values_.push_back(value());
  }

  Request draw() {
    Request request{.code = code()};
    for (const Field field : request_spec(request.code).fields) {
      switch (field) {
        case Field::kKey:
          request.keys.push_back(random_.pick(keys_));
          break;
        case Field::kValue:
          request.values.push_back(old_or_new_value());
          break;
        case Field::kKeys:
        case Field::kEntries:
          for (std::size_t count = list_size(); count > 0; --count) {
            request.keys.push_back(random_.pick(keys_));
            if (field == Field::kEntries) request.values.push_back(old_or_new_value());
          }
          break;
        case Field::kInt64:
          request.number = request.code == RequestCode::kBarrier ? random_.between(-1, 4)
                           : random_.one_in(8) ? random_.between(-(1ll << 40), 1ll << 40)
                                               : random_.between(-3, 3);
          break;
        case Field::kUint32:
          request.number = static_cast<std::int64_t>(random_.below(1ull << 32));
          break;
        case Field::kNone:
          break;
      }
    }
    return request;
  }

 private:
  RequestCode code() {
    std::size_t sum = 0;
    for (const Weight& weight : kWeights) sum += weight.weight;
    std::size_t at = random_.below(sum);
    for (const Weight& weight : kWeights) {
      if (at < weight.weight) return weight.code;
      at -= weight.weight;
    }
    return RequestCode::kPing;
  }

  std::size_t list_size() { return random_.one_in(10) ? random_.below(9) : 1 + random_.below(2); }

  std::string old_or_new_value() { return random_.one_in(4) ? value() : random_.pick(values_); }

  // add and barrier parse the number at the start of a value. Without one, the server closes the
  // connection.
  std::string value() {
    constexpr std::string_view kSome[] = {
        "",    "0",   "7", "-12",  " \t\n42", "+3",     "12 apples",
        "-",   "+-5", "a", "0x10", "- 5",     "1\0z"sv, "99999999999999999999",
        "1e3", "++1", " ", "007",  "ready",   "-0",     "5\0"sv};
    if (random_.one_in(40)) return binary(100'000);
    if (random_.one_in(8)) return binary(1 + random_.below(64));
    if (random_.one_in(3)) return std::to_string(random_.between(0, 5));
    return std::string(random_.pick(kSome));
  }

  std::string binary(std::size_t size) {
    std::string bytes;
    while (bytes.size() < size) bytes.push_back(static_cast<char>(random_.below(256)));
    return bytes;
  }

  Random& random_;
  std::vector<std::string> keys_, values_;
};

}  // namespace distrun::testing

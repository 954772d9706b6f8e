// The requests of c10d's TCPStore protocol (torch 2.13), as one table for parser, store table and
// tests.
//
// A request is one byte of RequestCode and then its fields, in the order of the table; numbers are
// little-endian and unaligned:
//
//     kKey     u64 length, bytes              kKeys     u64 count, count × kKey
//     kValue   u64 length, bytes              kEntries  u64 count, count × (kKey, kValue)
//     kInt64   8 bytes                        kUint32   4 bytes
//
// docs/store-protocol.md draws the frames and their answers.  Source of the protocol:
// torch/csrc/distributed/c10d/TCPStoreBackend.hpp and TCPStore.cpp of PyTorch.  Only the last
// request, status, is distrun's; its code is far from those that PyTorch may add next.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace distrun {

enum class RequestCode : std::uint8_t {
  kValidate,
  kSet,
  kCompareSet,
  kGet,
  kAdd,
  kCheck,
  kWait,
  kGetNumKeys,
  kDeleteKey,
  kAppend,
  kMultiGet,
  kMultiSet,
  kCancelWait,
  kPing,
  kQueuePush,
  kQueuePop,
  kQueueLen,
  kListKeys,
  kBarrier,
  kStatus = 0xE0,
};

inline constexpr std::size_t kRequestCount = 20;

enum class Field : std::uint8_t { kNone, kKey, kValue, kKeys, kEntries, kInt64, kUint32 };

struct RequestSpec {
  RequestCode code;
  std::string_view name;
  std::array<Field, 3> fields;  // Ends at the first kNone.
};

// In the order of the codes, whose only gap is before status.
inline constexpr std::array<RequestSpec, kRequestCount> kRequests = {{
    {RequestCode::kValidate, "validate", {Field::kUint32}},
    {RequestCode::kSet, "set", {Field::kKey, Field::kValue}},
    {RequestCode::kCompareSet, "compare_set", {Field::kKey, Field::kValue, Field::kValue}},
    {RequestCode::kGet, "get", {Field::kKey}},
    {RequestCode::kAdd, "add", {Field::kKey, Field::kInt64}},
    {RequestCode::kCheck, "check", {Field::kKeys}},
    {RequestCode::kWait, "wait", {Field::kKeys}},
    {RequestCode::kGetNumKeys, "get_num_keys", {}},
    {RequestCode::kDeleteKey, "delete_key", {Field::kKey}},
    {RequestCode::kAppend, "append", {Field::kKey, Field::kValue}},
    {RequestCode::kMultiGet, "multi_get", {Field::kKeys}},
    {RequestCode::kMultiSet, "multi_set", {Field::kEntries}},
    {RequestCode::kCancelWait, "cancel_wait", {}},
    {RequestCode::kPing, "ping", {Field::kUint32}},
    {RequestCode::kQueuePush, "queue_push", {Field::kKey, Field::kValue}},
    {RequestCode::kQueuePop, "queue_pop", {Field::kKey}},
    {RequestCode::kQueueLen, "queue_len", {Field::kKey}},
    {RequestCode::kListKeys, "list_keys", {}},
    {RequestCode::kBarrier, "barrier", {Field::kKey, Field::kInt64}},
    {RequestCode::kStatus, "status", {}},
}};

// The position of a code in the table; kRequestCount if it is unknown.
constexpr std::size_t request_index(std::uint8_t code) {
  if (code < kRequestCount - 1) return code;
  return code == static_cast<std::uint8_t>(RequestCode::kStatus) ? kRequestCount - 1
                                                                 : kRequestCount;
}
constexpr std::size_t request_index(RequestCode code) {
  return code == RequestCode::kStatus ? kRequestCount - 1 : static_cast<std::size_t>(code);
}
constexpr const RequestSpec& request_spec(RequestCode code) {
  return kRequests[request_index(code)];
}

// Every connection starts with validate, which carries this number.
inline constexpr std::uint32_t kValidateMagic = 0x3C85F7CE;

// The first byte of a connection from another node of the run (server/store_server_internals.h).
inline constexpr std::uint8_t kNodeGreeting = 0xE1;

// Answers to check, and to wait and barrier.
inline constexpr char kAllThere = 0, kNotAllThere = 1;
inline constexpr char kStopWaiting = 0, kWaitCanceled = 1;

// A request, its fields by kind in wire order. The views point into the parsed bytes.
struct StoreRequest {
  RequestCode code = RequestCode::kValidate;
  std::vector<std::string_view> keys;
  std::vector<std::string_view> values;
  std::int64_t number = 0;  // kInt64, or kUint32 widened.

  std::string_view key() const { return keys.front(); }
  std::string_view name() const { return request_spec(code).name; }
};

}  // namespace distrun

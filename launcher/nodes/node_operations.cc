#include "launcher/nodes/node_operations.h"

#include <map>
#include <stdexcept>
#include <string>
#include <utility>

#include "common/text/json_number.h"
#include "common/text/printable.h"

namespace distrun {

namespace {

using OperationsJson = nlohmann::json;
using std::chrono::nanoseconds;

constexpr std::size_t kEscapeBytesMax = 6;
constexpr std::size_t kNumbersBytesMax = 700;  // Of one operation, with digests.

template <class Number>
Number between(const OperationsJson& field, Number min, Number max) {
  const auto number = required_number<Number>(field);
  if (number < min || number > max) {
    throw std::out_of_range(field.dump() + " is not within its bounds");
  }
  return number;
}

std::string text_in(const OperationsJson& field) {
  return printable(field.get<std::string>(), kOperationTextBytesMax);
}

OperationsJson call_of(const Operation& operation) {
  return {operation.group,    operation.group_size,    operation.sequence,
          operation.op,       operation.dtype,         operation.sizes,
          operation.elements, operation.element_bytes, operation.peer};
}

Operation call_from(const OperationsJson& all) {
  if (all.size() != 9) throw std::out_of_range("a call has 9 fields");
  return {.op = text_in(all[3]),
          .dtype = text_in(all[4]),
          .sizes = text_in(all[5]),
          .elements = required_number<std::uint64_t>(all[6]),
          .element_bytes = required_number<std::uint32_t>(all[7]),
          .group = text_in(all[0]),
          .group_size = between(all[1], 0, kGroupSizeMax),
          .sequence = between(all[2], std::uint32_t{1}, UINT32_MAX),
          .peer = between(all[8], -1, kGroupSizeMax)};
}

OperationsJson rank_of(const RankOperation& one, std::size_t call, OperationTime base) {
  const Operation& its = one.operation;
  const auto since = [base](OperationTime time) { return (time - base).count(); };
  OperationsJson ended, input, outputs;
  if (its.ended) ended = since(*its.ended);
  if (its.input_digest) input = *its.input_digest;
  if (its.output_digests) outputs = *its.output_digests;
  return {call,  one.rank.value(), its.group_rank, its.number, since(its.began),
          ended, its.tells_end,    input,          outputs};
}

RankOperation rank_from(const OperationsJson& all, const std::vector<Operation>& calls,
                        OperationTime base) {
  if (all.size() != 9) throw std::out_of_range("a rank has 9 fields");
  constexpr std::int64_t kSpanMax = kOperationTimeMax.time_since_epoch().count();
  const auto time = [base](const OperationsJson& field) {
    const OperationTime sum = base + nanoseconds(between(field, -kSpanMax, kSpanMax));
    if (sum < OperationTime() || sum > kOperationTimeMax) {
      throw std::out_of_range("a time is not from 1970 to 2116");
    }
    return sum;
  };
  RankOperation one{.rank = Rank(between(all[1], 0, kGroupSizeMax)),
                    .operation = calls.at(required_number<std::size_t>(all[0]))};
  Operation& its = one.operation;
  its.group_rank = between(all[2], -1, kGroupSizeMax);
  its.number = required_number<std::uint64_t>(all[3]);
  its.began = time(all[4]);
  if (!all[5].is_null()) its.ended = time(all[5]);
  its.tells_end = all[6].get<bool>();
  if (!all[7].is_null()) its.input_digest = required_number<std::uint64_t>(all[7]);
  if (!all[8].is_null()) {
    if (all[8].size() != kDigestBlocks) throw std::out_of_range("not the digests of a tensor");
    BlockDigests digests{};
    for (std::size_t i = 0; i < kDigestBlocks; ++i) {
      digests.at(i) = required_number<std::uint32_t>(all[8][i]);
    }
    its.output_digests = digests;
  }
  return one;
}

}  // namespace

std::size_t json_bytes_max(const Operation& operation) {
  const std::size_t texts = operation.op.size() + operation.dtype.size() + operation.sizes.size() +
                            operation.group.size();
  return kEscapeBytesMax * texts + kNumbersBytesMax;
}

nlohmann::json json_of(const NodeOperations& message) {
  OperationsJson calls = OperationsJson::array(), ranks = OperationsJson::array();
  std::map<std::string, std::size_t> places;  // In `calls`.
  const OperationTime base =
      message.operations.empty() ? OperationTime() : message.operations.front().operation.began;
  for (const RankOperation& one : message.operations) {
    OperationsJson call = call_of(one.operation);
    const auto [place, is_new] = places.try_emplace(
        call.dump(-1, ' ', false, OperationsJson::error_handler_t::replace), calls.size());
    if (is_new) calls.push_back(std::move(call));
    ranks.push_back(rank_of(one, place->second, base));
  }
  return {{"type", "operations"},      {"attempt", message.attempt},
          {"missed", message.missed},  {"time", base.time_since_epoch().count()},
          {"calls", std::move(calls)}, {"ranks", std::move(ranks)}};
}

NodeOperations node_operations_from(const nlohmann::json& object) {
  NodeOperations message{.attempt = between(object.at("attempt"), 0, 1 << 24),
                         .operations = {},
                         .missed = required_number<std::uint64_t>(object.at("missed"))};
  const OperationTime base(nanoseconds(
      between(object.at("time"), std::int64_t{0}, kOperationTimeMax.time_since_epoch().count())));
  std::vector<Operation> calls;
  for (const OperationsJson& call : object.at("calls")) calls.push_back(call_from(call));
  for (const OperationsJson& rank : object.at("ranks")) {
    message.operations.push_back(rank_from(rank, calls, base));
  }
  return message;
}

}  // namespace distrun

#include "evidence/operations/call_check.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <tuple>

#include <fmt/format.h>

#include "common/operations/operation_page.h"
#include "common/text/rank_list.h"

namespace distrun {

namespace {

constexpr std::array<std::string_view, 6> kSameElements = {"all_reduce",
                                                           "broadcast",
                                                           "reduce",
                                                           "all_reduce_coalesced",
                                                           "all_gather_into_tensor",
                                                           "all_gather_into_tensor_coalesced"};
constexpr std::array<std::string_view, 6> kSameDtype = {
    "all_gather",     "all_gather_coalesced",  "gather",
    "reduce_scatter", "reduce_scatter_tensor", "reduce_scatter_tensor_coalesced"};

// Records have only the first bytes of a long name.
std::string_view cut(std::string_view op) {
  return op.substr(0, std::tuple_size_v<decltype(OperationTexts::op)>);
}

template <std::size_t N>
bool is_one_of(const std::array<std::string_view, N>& all, const Operation& operation) {
  return std::any_of(all.begin(), all.end(),
                     [&](std::string_view op) { return cut(op) == cut(operation.op); });
}

bool match(const Operation& a, const Operation& b) {
  if (a.op != b.op) return false;
  if (is_one_of(kSameElements, a)) return a.dtype == b.dtype && a.elements == b.elements;
  return !is_one_of(kSameDtype, a) || a.dtype == b.dtype;
}

std::string call_text(const Operation& operation) {
  if (operation.dtype.empty()) return operation.op;
  return fmt::format("{} ({} {})", operation.op, operation.dtype, operation.sizes);
}

}  // namespace

std::optional<CallDifference> call_difference_in(const CollectiveOfRanks& all) {
  CallDifference found;
  auto& calls = found.calls;
  for (const auto& each : all.by_rank) {
    const int rank = each.first;
    const Operation& operation = each.second;
    const auto same = std::find_if(calls.begin(), calls.end(), [&](const auto& call) {
      return match(call.operation, operation);
    });
    if (same != calls.end()) {
      same->ranks.push_back(rank);
    } else {
      calls.push_back({operation, {rank}});
    }
  }
  if (calls.size() < 2) return std::nullopt;
  std::stable_sort(calls.begin(), calls.end(),
                   [](const auto& a, const auto& b) { return a.ranks.size() < b.ranks.size(); });
  return found;
}

std::string text_of(const CallDifference& difference) {
  std::string text;
  for (const auto& [operation, ranks] : difference.calls) {
    text += fmt::format("{}{} called {}", text.empty() ? "" : ", ", list_of_ranks(ranks),
                        call_text(operation));
    if (&ranks == &difference.calls.front().ranks) {
      text += fmt::format(" as number {} of group {}", operation.sequence, operation.group);
    }
  }
  return text;
}

}  // namespace distrun

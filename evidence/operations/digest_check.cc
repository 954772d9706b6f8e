#include "evidence/operations/digest_check.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "common/text/rank_list.h"

namespace distrun {

namespace {

constexpr std::array<std::string_view, 7> kSameEverywhere = {"all_reduce",
                                                             "all_reduce_coalesced",
                                                             "broadcast",
                                                             "all_gather",
                                                             "all_gather_coalesced",
                                                             "all_gather_into_tensor",
                                                             "all_gather_into_tensor_coalesced"};

// From the first block that differs to the last one.
ElementRange range_of(const CollectiveOfRanks& all) {
  const Operation& any = all.any();
  ElementRange range{any.elements, 0};
  for (std::size_t block = 0; block < kDigestBlocks; ++block) {
    for (const auto& [rank, operation] : all.by_rank) {
      if ((*operation.output_digests)[block] == (*any.output_digests)[block]) continue;
      const auto [first, last] = elements_of_block(block, any.elements, any.element_bytes);
      range.first = std::min(range.first, first);
      range.last = std::max(range.last, last);
      break;
    }
  }
  return range;
}

}  // namespace

bool can_be_compared(const CollectiveOfRanks& all) {
  const Operation& any = all.any();
  if (std::find(kSameEverywhere.begin(), kSameEverywhere.end(), any.op) == kSameEverywhere.end()) {
    return false;
  }
  // Another operation, or another size, is a mismatch of calls, not of values.
  return std::all_of(all.by_rank.begin(), all.by_rank.end(), [&](const auto& each) {
    const Operation& operation = each.second;
    return operation.output_digests && operation.op == any.op && operation.elements == any.elements;
  });
}

std::optional<DigestDifference> difference_in(const CollectiveOfRanks& all) {
  if (!can_be_compared(all)) return std::nullopt;
  std::map<BlockDigests, std::vector<int>> by_digests;
  for (const auto& [rank, operation] : all.by_rank) {
    by_digests[*operation.output_digests].push_back(rank);
  }
  if (by_digests.size() < 2) return std::nullopt;
  DigestDifference found{.operation = all.any(), .ranks = {}, .elements = std::nullopt};
  for (auto& [digests, ranks] : by_digests) found.ranks.push_back(std::move(ranks));
  std::stable_sort(found.ranks.begin(), found.ranks.end(),
                   [](const auto& a, const auto& b) { return a.size() > b.size(); });
  if (found.operation.element_bytes > 0) found.elements = range_of(all);
  return found;
}

std::string text_of(const DigestDifference& difference) {
  const auto& groups = difference.ranks;
  std::vector<int> all;
  for (const auto& ranks : groups) all.insert(all.end(), ranks.begin(), ranks.end());
  std::sort(all.begin(), all.end());
  std::string text;
  if (groups.size() == 2 && groups[0].size() > groups[1].size()) {
    text = fmt::format("{} received other values than {}", list_of_ranks(groups[1]),
                       list_of_ranks(groups[0]));
  } else {
    text = fmt::format("{} received different values", list_of_ranks(all));
  }
  text += fmt::format(" in {}", text_of(difference.operation));
  if (difference.elements) {
    text += fmt::format(", in elements {} to {}", difference.elements->first,
                        difference.elements->last - 1);
  }
  return text;
}

}  // namespace distrun

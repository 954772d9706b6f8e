#include "parallel/checkpoint/save_plan.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include <c10/util/ArrayRef.h>
#include <c10/util/Exception.h>
#include <nlohmann/json.hpp>

namespace distrun::internal {

namespace {

using nlohmann::json;
using Ranks = std::vector<int>;

// The parts of one tensor, and the ranks that have each.
struct Holders {
  const PartFacts* first = nullptr;
  int first_rank = 0;
  std::map<Box, Ranks> ranks;
};

int global_of(int rank, const Ranks& global_ranks) {
  return global_ranks.at(static_cast<std::size_t>(rank));
}

void check_same(const Holders& known, const PartFacts& part, int rank, const Ranks& global_ranks) {
  const PartFacts& first = *known.first;
  const int first_rank = global_of(known.first_rank, global_ranks),
            its_rank = global_of(rank, global_ranks);
  TORCH_CHECK_VALUE(first.sizes == part.sizes, "save_checkpoint: '", part.name, "' has sizes ",
                    c10::IntArrayRef(first.sizes), " on rank ", first_rank, " and ",
                    c10::IntArrayRef(part.sizes), " on rank ", its_rank,
                    "; expected the same sizes");
  TORCH_CHECK_VALUE(first.dtype == part.dtype, "save_checkpoint: '", part.name, "' has dtype ",
                    first.dtype, " on rank ", first_rank, " and ", part.dtype, " on rank ",
                    its_rank, "; expected the same dtype");
}

// In the order of the names, which is the same on every rank.
std::map<std::string, Holders> holders_in(const std::vector<std::vector<PartFacts>>& all,
                                          const Ranks& global_ranks) {
  std::map<std::string, Holders> tensors;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const int number = static_cast<int>(rank);
    for (const PartFacts& part : all[rank]) {
      Holders& known = tensors[part.name];
      if (known.first == nullptr) {
        known.first = &part;
        known.first_rank = number;
      }
      check_same(known, part, number, global_ranks);
      known.ranks[part.box].push_back(number);
    }
  }
  return tensors;
}

// Along the first dimension.
bool begins_after(const Box& box, const Box& other) {
  return !box.offsets.empty() && box.offsets[0] >= other.offsets[0] + other.sizes[0];
}

void check_complete(const std::string& name, const Holders& holders, const Ranks& global_ranks) {
  std::int64_t elements = 0;
  for (auto one = holders.ranks.begin(); one != holders.ranks.end(); ++one) {
    elements += one->first.numel();
    // They are sorted by their offsets, so the next ones begin later.
    for (auto other = std::next(one); other != holders.ranks.end(); ++other) {
      if (begins_after(other->first, one->first)) break;
      TORCH_CHECK_VALUE(!intersection(one->first, other->first), "save_checkpoint: '", name,
                        "' has parts that overlap, on rank ",
                        global_of(one->second.front(), global_ranks), " at ",
                        c10::IntArrayRef(one->first.offsets), " and on rank ",
                        global_of(other->second.front(), global_ranks), " at ",
                        c10::IntArrayRef(other->first.offsets));
    }
  }
  const std::int64_t expected = whole_box(holders.first->sizes).numel();
  TORCH_CHECK_VALUE(elements == expected, "save_checkpoint: the ranks have ", elements, " of the ",
                    expected, " elements of '", name,
                    "'; every rank that has a part of it must add the part");
}

}  // namespace

std::string text_of(const std::vector<PartFacts>& parts) {
  json list = json::array();
  for (const PartFacts& part : parts) {
    list.push_back(
        {part.name, static_cast<int>(part.dtype), part.sizes, part.box.offsets, part.box.sizes});
  }
  return list.dump();
}

std::vector<PartFacts> parts_in(std::string_view text) {
  using Sizes = std::vector<std::int64_t>;
  std::vector<PartFacts> parts;
  for (const json& one : json::parse(text)) {
    parts.push_back({.name = one.at(0).get<std::string>(),
                     .dtype = static_cast<at::ScalarType>(one.at(1).get<int>()),
                     .sizes = one.at(2).get<Sizes>(),
                     .box = {one.at(3).get<Sizes>(), one.at(4).get<Sizes>()}});
  }
  return parts;
}

std::vector<std::size_t> parts_to_write(const std::vector<std::vector<PartFacts>>& all, int rank,
                                        const std::vector<int>& global_ranks) {
  const auto tensors = holders_in(all, global_ranks);
  std::vector<std::int64_t> bytes(all.size());
  std::set<std::pair<std::string, Box>> own;
  for (const auto& [name, holders] : tensors) {
    check_complete(name, holders, global_ranks);
    for (const auto& [box, ranks] : holders.ranks) {
      const int writer = *std::min_element(ranks.begin(), ranks.end(), [&](int a, int b) {
        return bytes[static_cast<std::size_t>(a)] < bytes[static_cast<std::size_t>(b)];
      });
      bytes[static_cast<std::size_t>(writer)] +=
          box.numel() * static_cast<std::int64_t>(c10::elementSize(holders.first->dtype));
      if (writer == rank) own.emplace(name, box);
    }
  }
  std::vector<std::size_t> indices;
  const auto& parts = all[static_cast<std::size_t>(rank)];
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (own.contains({parts[i].name, parts[i].box})) indices.push_back(i);
  }
  return indices;
}

}  // namespace distrun::internal

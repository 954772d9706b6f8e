// Decides which rank saves which part of a tensor.
//
//     std::vector<std::vector<PartFacts>> all;              // What each rank has.
//     const auto writes = parts_to_write(all, /*rank=*/2, {4, 5, 6});  // Indices in all[2].
//
// Every rank computes the same plan from the same facts, and finds the same errors. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <c10/core/ScalarType.h>

#include "parallel/checkpoint/box.h"

namespace distrun::internal {

struct PartFacts {
  std::string name;
  at::ScalarType dtype = at::kFloat;
  std::vector<std::int64_t> sizes;  // Of the whole tensor.
  Box box;
};

// For sending to other ranks.
std::string text_of(const std::vector<PartFacts>& parts);
std::vector<PartFacts> parts_in(std::string_view text);

// Of the ranks that have a part, the one that has to write the fewest bytes so far writes it.
// Throws c10::ValueError if ranks have different facts of a tensor, or if its parts overlap or are
// not all there.
//
// `global_ranks` has the number of each rank in the texts of errors.
std::vector<std::size_t> parts_to_write(const std::vector<std::vector<PartFacts>>& all, int rank,
                                        const std::vector<int>& global_ranks);

}  // namespace distrun::internal

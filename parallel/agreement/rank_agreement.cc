#include "parallel/agreement/rank_agreement.h"

#include <algorithm>
#include <cstddef>
#include <sstream>
#include <vector>

#include <c10/util/Exception.h>

#include "distrun/collectives.h"
#include "distrun/process_group.h"

namespace distrun::internal {

namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

}  // namespace

void check_agreement(const std::string& name, const RankDescription& own, const Group& group,
                     const std::string& requirement) {
  const std::vector<int> ranks = get_process_group_ranks(group);
  // A rank that has an error can have no description.
  const std::vector<std::string> errors = all_gather_bytes(own.error, group);
  for (std::size_t i = 0; i < errors.size(); ++i) {
    TORCH_CHECK_VALUE(errors[i].empty(), name, ": ", errors[i], " (on rank ", ranks[i], ")");
  }
  const std::vector<std::string> all = all_gather_bytes(own.lines, group);
  const auto other = std::find_if(all.begin(), all.end(),
                                  [&](const std::string& one) { return one != all.front(); });
  if (other == all.end()) return;
  const auto expected = lines_of(all.front()), found = lines_of(*other);
  std::size_t i = 0;
  while (i < expected.size() && i < found.size() && expected[i] == found[i]) ++i;
  const auto line = [&](const std::vector<std::string>& lines) {
    return i < lines.size() ? lines[i] : std::string("nothing");
  };
  TORCH_CHECK_VALUE(false, name, ": rank ", ranks[static_cast<std::size_t>(other - all.begin())],
                    " has ", line(found), ", and rank ", ranks.front(), " has ", line(expected),
                    "; all ranks must ", requirement);
}

}  // namespace distrun::internal

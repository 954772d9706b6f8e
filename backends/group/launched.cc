// Variables that the launcher sets.
#include <cstdlib>
#include <limits>

#include <c10/util/Exception.h>

#include "common/text/parse_number.h"
#include "distrun/process_group.h"

namespace distrun {

int get_node_local_rank(std::optional<int> fallback_rank) {
  const char* const text = std::getenv("LOCAL_RANK");
  if (text == nullptr) {
    TORCH_CHECK(fallback_rank.has_value(),
                "get_node_local_rank: the variable LOCAL_RANK is not set; start the program with "
                "`distrun launch` or torchrun, or pass a fallback_rank");
    return *fallback_rank;
  }
  const auto rank = parse_number<int>(text, 0, std::numeric_limits<int>::max());
  TORCH_CHECK(rank.has_value(), "get_node_local_rank: LOCAL_RANK: ", rank.error().message);
  return *rank;
}

bool is_torchelastic_launched() { return std::getenv("TORCHELASTIC_RUN_ID") != nullptr; }

}  // namespace distrun

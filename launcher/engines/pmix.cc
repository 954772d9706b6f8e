// The tasks of engines that speak PMIx, and set no other variables, such as prterun. PMIx
// has the number of tasks, but not in a variable.
#include "launcher/engines/engine_facts.h"
#include "launcher/engines/fact_reader.h"

namespace distrun {

Result<std::optional<EngineFacts>> pmix_facts(const Environment& environment) {
  const FactReader read(environment, "PMIx");
  if (!read.text("PMIX_NAMESPACE") || !read.text("PMIX_RANK")) return std::optional<EngineFacts>();
  return Error{ErrorKind::kInvalidArgument,
               "PMIX_RANK: PMIx started this process, and does not say how many tasks there are; "
               "give --nnodes, --node-rank and --master-addr, or --standalone to run on this node "
               "only"};
}

}  // namespace distrun

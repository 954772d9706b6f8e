// What FullyShardedDataParallel needs to know about layers whose parts lie on several ranks.
#pragma once

#include <string>

#include "distrun/group.h"

namespace distrun::internal {

class DividedModule {
 public:
  virtual ~DividedModule() = default;
  // The ranks that have the parts.
  virtual const Group& group_of_parts() const = 0;
  // Whether each rank has a part of the parameter; otherwise, each has all of it.
  virtual bool is_divided(const std::string& parameter) const = 0;
};

}  // namespace distrun::internal

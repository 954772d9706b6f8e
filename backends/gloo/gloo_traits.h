// The traits of Gloo (backends/group/backend_traits.h).
#pragma once

#include <memory>

#include "backends/group/backend_traits.h"

namespace distrun::internal {

std::shared_ptr<const BackendTraits> gloo_traits();

}  // namespace distrun::internal

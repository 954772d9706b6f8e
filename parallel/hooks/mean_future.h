// What all hooks share: the checked size of their group, and the mean of a tensor.
#pragma once

#include "distrun/comm_hook.h"
#include "distrun/group.h"

namespace distrun::internal {

// The number of ranks in `group`.  Throws c10::ValueError if this rank is not one of them.
int size_for_hook(const Group& group, const char* hook);

// Throws c10::ValueError if the tensor is sparse.
void check_dense(const at::Tensor& buffer, const char* hook);

// Divides `tensor` first, so that float16 does not overflow, and sums it in `group`. `tensor` has
// the gradients of the bucket. If a peer is lost, the future throws c10::DistBackendError, which
// names the hook and the bucket. Throws as size_for_hook().
Future mean_future(const Group& group, const char* hook, const c10d::GradBucket& bucket,
                   const at::Tensor& tensor);

}  // namespace distrun::internal

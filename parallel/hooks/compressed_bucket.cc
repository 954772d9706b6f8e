#include "parallel/hooks/compressed_bucket.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/bmm.h>
#include <c10/util/Exception.h>

#include "distrun/collectives.h"
#include "distrun/process_group.h"
#include "parallel/hooks/orthogonalize.h"

namespace distrun::internal {

void add_error(CompressedBucket& bucket, TensorOfBucket& errors) {
  const auto error = errors.find(bucket.index);
  if (error != errors.end()) {
    TORCH_CHECK_VALUE(
        error->second.sizes() == bucket.input.sizes(), "PowerSGD on rank ", get_rank(),
        ": the saved error of bucket ", bucket.index, " has ", error->second.numel(),
        " elements, and the bucket has ", bucket.input.numel(),
        "; use a state for one DistributedDataParallel; after PowerSGDState::load(), use the "
        "model and the bucket_cap_mb of the saved run");
    bucket.input.add_(error->second);
  }
  bucket.before = bucket.input.clone();
}

void send_qs(CompressedBucket& bucket, const PowerSGDOptions& options) {
  bucket.p_sum.wait();
  for (LowRank& part : bucket.parts) {
    orthogonalize(part.p, options.orthogonalization_epsilon);
    at::bmm_out(part.q, part.matrices.transpose(1, 2), part.p);
  }
  bucket.q_sum =
      all_reduce(bucket.q_flat, ReduceOp::SUM, {.group = options.process_group, .async_op = true});
}

void decompress(CompressedBucket& bucket) {
  bucket.whole_sum.wait();
  if (!bucket.whole.empty()) bucket.whole_flat.div_(bucket.size);
  std::int64_t begin = 0;
  for (const at::Tensor& tensor : bucket.whole) {
    tensor.copy_(bucket.whole_flat.narrow(0, begin, tensor.numel()).view_as(tensor));
    begin += tensor.numel();
  }
  bucket.q_sum.wait();
  bucket.q_flat.div_(bucket.size);
  for (LowRank& part : bucket.parts) {
    at::bmm_out(part.matrices, part.p, part.q.transpose(1, 2));
    for (std::size_t i = 0; i < part.originals.size(); ++i) {
      part.originals[i].copy_(part.matrices[static_cast<std::int64_t>(i)]);
    }
  }
  if (bucket.input.is_same(bucket.gradients)) return;
  bucket.gradients.copy_(bucket.input.narrow(0, 0, bucket.gradients.numel()));
}

}  // namespace distrun::internal

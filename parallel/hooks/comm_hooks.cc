#include "distrun/comm_hooks.h"

#include <exception>
#include <string>

#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>
#include <c10/util/Exception.h>
#include <torch/csrc/distributed/c10d/comm.hpp>

#include "backends/group/collective_checks.h"
#include "backends/group/run_collective.h"
#include "distrun/collectives.h"
#include "distrun/process_group.h"
#include "parallel/hooks/mean_future.h"

namespace distrun {

namespace internal {

int size_for_hook(const Group& group, const char* hook) {
  TORCH_CHECK_VALUE(group.is_member(), hook, " on rank ", get_rank(),
                    ": this rank is not in the hook's group; pass the process_group of the "
                    "DistributedDataParallel as the hook's group");
  return get_world_size(group);
}

namespace {

// A bucket has no names of parameters.
std::string reduced_by_hook(const c10d::GradBucket& bucket) {
  const auto& parameters = bucket.getParameters();
  std::string text = c10::str("; it reduced bucket ", bucket.getIndex());
  if (!parameters.empty()) {
    text += c10::str(" with ", parameters.size(), " gradients, the first of sizes ",
                     parameters[0].sizes());
  }
  return text + "; if ranks have different numbers of inputs, train in a Join (distrun/join.h)";
}

}  // namespace

Future mean_future(const Group& group, const char* hook, const c10d::GradBucket& bucket,
                   const at::Tensor& tensor) {
  tensor.div_(size_for_hook(group, hook));
  const CallSite site{hook, group};
  const Work sum = all_reduce(tensor, ReduceOp::SUM, {.group = group, .async_op = true});
  return sum.get_future()->then(
      [errors = ErrorsAt(site),
       hint = reduced_by_hook(bucket)](c10::ivalue::Future& done) -> c10::IValue {
        if (done.hasError()) {
          std::rethrow_exception(errors.translated(done.exception_ptr(), hint));
        }
        return done.value().toTensorVector()[0];
      },
      c10::TensorType::get());
}

void check_dense(const at::Tensor& buffer, const char* hook) {
  TORCH_CHECK_VALUE(buffer.layout() == at::kStrided, hook, " on rank ", get_rank(),
                    ": the bucket has sparse gradients; use allreduce_hook, or a layer without "
                    "sparse gradients");
}

at::Tensor replace_buffer(c10d::GradBucket& bucket, at::ScalarType dtype) {
  at::Tensor original = bucket.getBuffer();
  check_dense(original, "compress wrapper");
  at::Tensor converted = original.to(dtype);
  bucket.setBuffer(converted);
  return original;
}

Future decompressed(const Future& result, const at::Tensor& buffer) {
  TORCH_CHECK_VALUE(result,
                    "compress wrapper: the wrapped hook has returned a null Future; expected one "
                    "that holds the gradients");
  return result->then(
      [buffer](c10::ivalue::Future& done) -> c10::IValue {
        const c10::IValue& value = done.value();
        buffer.copy_(value.isTensor() ? value.toTensor() : value.toTensorVector().at(0));
        return buffer;
      },
      c10::TensorType::get());
}

namespace {

Future compressed_mean(const Group& group, c10d::GradBucket& bucket, at::ScalarType dtype,
                       const char* hook) {
  const at::Tensor& buffer = bucket.getBuffer();
  check_dense(buffer, hook);
  return decompressed(mean_future(group, hook, bucket, buffer.to(dtype)), buffer);
}

}  // namespace

}  // namespace internal

Future allreduce_hook(const Group& process_group, c10d::GradBucket& bucket) {
  return internal::mean_future(process_group, "allreduce_hook", bucket, bucket.getBuffer());
}

Future fp16_compress_hook(const Group& process_group, c10d::GradBucket& bucket) {
  return internal::compressed_mean(process_group, bucket, at::kHalf, "fp16_compress_hook");
}

Future bf16_compress_hook(const Group& process_group, c10d::GradBucket& bucket) {
  return internal::compressed_mean(process_group, bucket, at::kBFloat16, "bf16_compress_hook");
}

Future noop_hook(c10d::GradBucket& bucket) { return completed_future(bucket.getBuffer()); }

}  // namespace distrun

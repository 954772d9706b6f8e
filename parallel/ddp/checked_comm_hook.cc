#include "parallel/ddp/checked_comm_hook.h"

#include <utility>

#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>
#include <c10/util/Exception.h>

namespace distrun::internal {

namespace {

// Required properties of a hook's result.
struct BucketShape {
  std::vector<int64_t> sizes;
  at::ScalarType dtype;
  c10::Device device;

  explicit BucketShape(const at::Tensor& buffer)
      : sizes(buffer.sizes().vec()), dtype(buffer.scalar_type()), device(buffer.device()) {}
};

// Accepts a tensor, or a list of one as in Work's futures.
at::Tensor tensor_of(const c10::IValue& value, const std::string& hook) {
  if (value.isTensor()) return value.toTensor();
  TORCH_CHECK_VALUE(value.isTensorList(), "communication hook ", hook, ": its future holds ",
                    value.tagKind(), "; expected a tensor");
  const auto list = value.toTensorVector();
  TORCH_CHECK_VALUE(list.size() == 1, "communication hook ", hook, ": its future holds a list of ",
                    list.size(), " tensors; expected one");
  return list.front();
}

at::Tensor checked(const c10::IValue& value, const BucketShape& bucket, const std::string& hook) {
  at::Tensor tensor = tensor_of(value, hook);
  TORCH_CHECK_VALUE(tensor.defined(), "communication hook ", hook,
                    ": its future holds an undefined tensor; expected the gradients");
  TORCH_CHECK_VALUE(tensor.sizes() == bucket.sizes && tensor.scalar_type() == bucket.dtype &&
                        tensor.device() == bucket.device,
                    "communication hook ", hook, ": its future holds a tensor of sizes ",
                    tensor.sizes(), ", ", tensor.scalar_type(), " on ", tensor.device(),
                    "; expected those of the bucket's buffer, ", at::IntArrayRef(bucket.sizes),
                    ", ", bucket.dtype, " on ", bucket.device);
  return tensor;
}

class CheckedCommHook : public c10d::CommHookInterface {
 public:
  CheckedCommHook(CommHook hook, std::string name)
      : hook_(std::move(hook)), name_(std::move(name)) {}

  Future runHook(c10d::GradBucket& bucket) override {
    const BucketShape shape(bucket.getBuffer());
    const Future future = hook_(bucket);
    TORCH_CHECK_VALUE(future, "communication hook ", name_,
                      ": it has returned a null Future; expected one that holds the gradients");
    return future->then(
        [shape, name = name_](c10::ivalue::Future& done) -> c10::IValue {
          return checked(done.value(), shape, name);
        },
        c10::TensorType::get());
  }

  at::Tensor parseHookResult(const c10::IValue& result) override { return result.toTensor(); }

 private:
  CommHook hook_;
  std::string name_;
};

}  // namespace

std::unique_ptr<c10d::CommHookInterface> checked_comm_hook(CommHook hook, std::string name) {
  TORCH_CHECK_VALUE(hook, "communication hook ", name, ": the hook is empty; expected a function");
  return std::make_unique<CheckedCommHook>(std::move(hook), std::move(name));
}

}  // namespace distrun::internal

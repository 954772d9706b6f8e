#include "distrun/shared_tensor.h"

#include <cstring>

#include <ATen/MapAllocator.h>
#include <c10/core/StorageImpl.h>
#include <c10/util/Exception.h>

#include "sharing/memory/shared_memory.h"
#ifdef DISTRUN_CUDA
#include "sharing/memory/cuda_memory.h"
#endif

namespace distrun {

namespace {

bool is_of_cuda([[maybe_unused]] const c10::Device& device) {
#ifdef DISTRUN_CUDA
  return device.is_cuda();
#else
  return false;
#endif
}

void check_can_be_shared(const at::Tensor& tensor) {
  TORCH_CHECK_VALUE(tensor.defined(), "share a tensor: it is undefined");
  TORCH_CHECK_VALUE(!tensor.is_meta(), "share a tensor: on the meta device it has no memory");
  TORCH_CHECK_NOT_IMPLEMENTED(
      tensor.layout() == at::kStrided && !tensor.is_nested(), "share a tensor: it is ",
      tensor.is_nested() ? "nested" : c10::str(tensor.layout()),
      ", and only dense tensors can be shared: share the tensors it consists of");
  TORCH_CHECK_NOT_IMPLEMENTED(!tensor.is_quantized(),
                              "share a tensor: it is quantized: share its int_repr()");
  TORCH_CHECK_NOT_IMPLEMENTED(tensor.device().is_cpu() || is_of_cuda(tensor.device()),
                              "share a tensor: it is on ", tensor.device(),
                              ", and only CPU memory can be shared: share its cpu()");
  TORCH_CHECK_NOT_IMPLEMENTED(tensor.has_storage() && !tensor._is_zerotensor(),
                              "share a tensor: it does not own memory: share its clone()");
}

void share_storage(c10::StorageImpl& storage) {
#ifdef DISTRUN_CUDA
  if (storage.device().is_cuda()) return internal::share_cuda_memory(storage);
#endif
  if (internal::shared_memory_of(storage) >= 0) return;
  TORCH_CHECK_NOT_IMPLEMENTED(at::MapAllocator::fromDataPtr(storage.data_ptr()) == nullptr,
                              "share a tensor: its storage maps a file: share its clone()");
  const void* data = storage.mutable_data();  // Ends copy-on-write.
  at::DataPtr memory = internal::make_shared_memory(storage.nbytes());
  if (storage.nbytes() > 0) std::memcpy(memory.mutable_get(), data, storage.nbytes());
  storage.set_data_ptr_noswap(std::move(memory));
  storage.set_resizable(false);
}

}  // namespace

at::Tensor share_memory_(const at::Tensor& tensor) {
  check_can_be_shared(tensor);
  share_storage(*tensor.storage().unsafeGetStorageImpl());
  return tensor;
}

bool is_shared(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.has_storage()) return false;
  const c10::StorageImpl& storage = *tensor.storage().unsafeGetStorageImpl();
#ifdef DISTRUN_CUDA
  if (storage.device().is_cuda()) return internal::is_cuda_memory_shared(storage);
#endif
  return internal::shared_memory_of(storage) >= 0;
}

}  // namespace distrun

// The fields of tensors:
//
//     {"storages": [[descriptor, bytes], …],
//      "tensors": [[storage, dtype, offset, bits, [size, …], [stride, …]], …]}
//
// A storage on a GPU has the fields described in cuda_memory.h.
#include "sharing/memory/tensor_fields.h"

#include <map>

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>
#include <c10/core/TensorOptions.h>
#include <c10/util/Exception.h>
#include <nlohmann/json.hpp>

#include "distrun/shared_tensor.h"
#include "sharing/memory/number_field.h"
#include "sharing/memory/shared_memory.h"
#ifdef DISTRUN_CUDA
#include "sharing/memory/cuda_memory.h"
#endif

namespace distrun::internal {

namespace {

constexpr std::int64_t kRequiresGrad = 1, kConjugate = 2, kNegative = 4;

std::int64_t bits_of(const at::Tensor& tensor) {
  return (tensor.requires_grad() ? kRequiresGrad : 0) | (tensor.is_conj() ? kConjugate : 0) |
         (tensor.is_neg() ? kNegative : 0);
}

// A tensor without its memory.
struct View {
  at::ScalarType type;
  std::int64_t offset;
  std::int64_t bits;
  std::vector<std::int64_t> sizes, strides;
};

std::int64_t index(const nlohmann::json& field, std::size_t count) {
  const auto value = number_field<std::int64_t>(field);
  TORCH_CHECK_VALUE(value >= 0 && static_cast<std::size_t>(value) < count, "number ", value, " of ",
                    count);
  return value;
}

std::vector<std::int64_t> numbers_in(const nlohmann::json& fields) {
  TORCH_CHECK_VALUE(fields.is_array(), fields.type_name(), " instead of a list of numbers");
  std::vector<std::int64_t> numbers;
  numbers.reserve(fields.size());
  for (const auto& field : fields) numbers.push_back(number_field<std::int64_t>(field));
  return numbers;
}

View view_of(const nlohmann::json& fields) {
  return {.type = static_cast<at::ScalarType>(
              index(fields.at(1), static_cast<std::size_t>(at::ScalarType::Undefined))),
          .offset = number_field<std::int64_t>(fields.at(2)),
          .bits = number_field<std::int64_t>(fields.at(3)),
          .sizes = numbers_in(fields.at(4)),
          .strides = numbers_in(fields.at(5))};
}

// How many bytes of storage the view uses; negative if malformed or too large to count.
std::int64_t bytes_used(const View& view) {
  if (view.offset < 0 || view.sizes.size() != view.strides.size()) return -1;
  std::int64_t elements = 1, end = 0, bytes = 0;
  bool is_empty = false, overflows = __builtin_add_overflow(view.offset, 1, &end);
  for (std::size_t i = 0; i < view.sizes.size(); ++i) {
    std::int64_t reach = 0;
    if (view.sizes[i] < 0 || view.strides[i] < 0) return -1;
    if (view.sizes[i] == 0) {
      is_empty = true;
      continue;
    }
    overflows |= __builtin_mul_overflow(elements, view.sizes[i], &elements);
    overflows |= __builtin_mul_overflow(view.sizes[i] - 1, view.strides[i], &reach);
    overflows |= __builtin_add_overflow(end, reach, &end);
  }
  const auto element = static_cast<std::int64_t>(c10::elementSize(view.type));
  overflows |= __builtin_mul_overflow(end, element, &bytes);
  if (overflows) return -1;
  return is_empty ? 0 : bytes;
}

void check_bounds(const View& view, const c10::Storage& storage) {
  const std::int64_t bytes = bytes_used(view);
  TORCH_CHECK_VALUE(bytes >= 0 && static_cast<std::size_t>(bytes) <= storage.nbytes(), "sizes ",
                    at::IntArrayRef(view.sizes), ", strides ", at::IntArrayRef(view.strides),
                    ", offset ", view.offset, " of ", view.type, " do not fit into ",
                    storage.nbytes(), " bytes");
  const bool is_complex = c10::isComplexType(view.type);
  const bool has_gradients = is_complex || c10::isFloatingType(view.type);
  TORCH_CHECK_VALUE(!c10::isQIntType(view.type) &&
                        ((view.bits & kRequiresGrad) == 0 || has_gradients) &&
                        ((view.bits & kConjugate) == 0 || is_complex),
                    "bits ", view.bits, " of ", view.type);
}

at::Tensor make_tensor(const View& view, const c10::Storage& storage) {
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(storage),
      c10::DispatchKeySet(c10::computeDispatchKey(view.type, at::kStrided, storage.device())),
      caffe2::TypeMeta::fromScalarType(view.type));
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(view.sizes, view.strides, view.offset);
  if ((view.bits & kConjugate) != 0) tensor._set_conj(true);
  if ((view.bits & kNegative) != 0) tensor._set_neg(true);
  if ((view.bits & kRequiresGrad) != 0) tensor.set_requires_grad(true);
  return tensor;
}

c10::Storage map_storage(const nlohmann::json& fields, std::vector<UniqueFd>& descriptors) {
#ifdef DISTRUN_CUDA
  if (fields.size() > 2) return take_over_cuda(fields, descriptors);
#endif
  const auto at = static_cast<std::size_t>(index(fields.at(0), descriptors.size()));
  const auto bytes = number_field<std::size_t>(fields.at(1));
  return c10::Storage(c10::Storage::use_byte_size_t(), bytes,
                      map_shared_memory(std::move(descriptors[at]), bytes));
}

nlohmann::json storage_fields(const c10::StorageImpl& storage, MessageDescriptors& descriptors) {
#ifdef DISTRUN_CUDA
  if (is_cuda_memory_shared(storage)) return hand_over_cuda(storage, descriptors);
#endif
  const int descriptor = shared_memory_of(storage);
  TORCH_CHECK_VALUE(descriptor >= 0,
                    "hand a tensor over: its memory was replaced after it was shared");
  descriptors.all.push_back(descriptor);
  return {descriptors.all.size() - 1, storage.nbytes()};
}

}  // namespace

SharedTensor::SharedTensor(const at::Tensor& tensor) : tensor_(tensor) {
  TORCH_CHECK_VALUE(!tensor.defined() || tensor.is_leaf(),
                    "share a tensor: it is the result of a computation with gradients, which stays "
                    "in this process: share its detach()");
  share_memory_(tensor);
}

nlohmann::json hand_over(const std::vector<SharedTensor>& tensors,
                         MessageDescriptors& descriptors) {
  std::map<const c10::StorageImpl*, std::size_t> numbers;
  nlohmann::json storages = nlohmann::json::array(), views = nlohmann::json::array();
  for (const SharedTensor& shared : tensors) {
    const at::Tensor& tensor = shared.tensor();
    const c10::StorageImpl* storage = tensor.storage().unsafeGetStorageImpl();
    const auto [at, is_new] = numbers.try_emplace(storage, numbers.size());
    if (is_new) {
      storages.push_back(storage_fields(*storage, descriptors));
    }
    views.push_back({at->second, static_cast<int>(tensor.scalar_type()), tensor.storage_offset(),
                     bits_of(tensor), tensor.sizes().vec(), tensor.strides().vec()});
  }
  return {{"storages", std::move(storages)}, {"tensors", std::move(views)}};
}

std::vector<at::Tensor> taken_over(const nlohmann::json& fields,
                                   std::vector<UniqueFd>& descriptors) {
  try {
    std::vector<c10::Storage> storages;
    for (const auto& storage : fields.at("storages")) {
      storages.push_back(map_storage(storage, descriptors));
    }
    std::vector<at::Tensor> tensors;
    for (const auto& tensor : fields.at("tensors")) {
      const c10::Storage& storage =
          storages[static_cast<std::size_t>(index(tensor.at(0), storages.size()))];
      const View view = view_of(tensor);
      check_bounds(view, storage);
      tensors.push_back(make_tensor(view, storage));
    }
    return tensors;
  } catch (const nlohmann::json::exception& error) {
    TORCH_CHECK_VALUE(false, "take tensors over: the message is malformed: ", error.what());
  } catch (c10::Error& error) {
    error.add_context("while tensors were taken over from another process");
    throw;
  }
}

}  // namespace distrun::internal

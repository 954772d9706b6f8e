#include "backends/shm/shm_tensors.h"

#include <optional>

#include <ATen/MemoryOverlap.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/util/Exception.h>

namespace distrun::shm {

namespace {

std::optional<Element> element_of(at::ScalarType type) {
  switch (type) {
    case at::kBool:
      return Element::kBool;
    case at::kByte:
      return Element::kUint8;
    case at::kChar:
      return Element::kInt8;
    case at::kShort:
      return Element::kInt16;
    case at::kInt:
      return Element::kInt32;
    case at::kLong:
      return Element::kInt64;
    case at::kUInt16:
      return Element::kUint16;
    case at::kUInt32:
      return Element::kUint32;
    case at::kUInt64:
      return Element::kUint64;
    case at::kHalf:
      return Element::kHalf;
    case at::kBFloat16:
      return Element::kBFloat16;
    case at::kFloat:
      return Element::kFloat32;
    case at::kDouble:
      return Element::kFloat64;
    case at::kComplexHalf:
      return Element::kComplexHalf;
    case at::kComplexFloat:
      return Element::kComplex64;
    case at::kComplexDouble:
      return Element::kComplex128;
    default:
      return std::nullopt;
  }
}

std::optional<Reduction> reduction_of(const c10d::ReduceOp& op) {
  switch (op.op_) {
    case c10d::ReduceOp::SUM:
      return Reduction::kSum;
    case c10d::ReduceOp::AVG:
      return Reduction::kAverage;
    case c10d::ReduceOp::PRODUCT:
      return Reduction::kProduct;
    case c10d::ReduceOp::MIN:
      return Reduction::kMin;
    case c10d::ReduceOp::MAX:
      return Reduction::kMax;
    case c10d::ReduceOp::BAND:
      return Reduction::kBitwiseAnd;
    case c10d::ReduceOp::BOR:
      return Reduction::kBitwiseOr;
    case c10d::ReduceOp::BXOR:
      return Reduction::kBitwiseXor;
    default:
      return std::nullopt;
  }
}

bool is_plain(const at::Tensor& tensor) {
  return tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg();
}

}  // namespace

std::optional<Reducing> find_reducing(const at::Tensor& tensor, const c10d::ReduceOp& op) {
  const auto element = element_of(tensor.scalar_type());
  const auto reduction = reduction_of(op);
  if (!element || !reduction) return std::nullopt;
  const Reducing how = {.element = *element, .reduction = *reduction};
  return is_defined(how) ? std::optional(how) : std::nullopt;
}

Reducing reducing(const char* call, const at::Tensor& tensor, const c10d::ReduceOp& op) {
  const auto how = find_reducing(tensor, op);
  TORCH_CHECK_VALUE(how, call, ": shm has no such reduction of ", tensor.scalar_type());
  return *how;
}

DenseTensor::DenseTensor(const at::Tensor& tensor) : tensor_(tensor), dense_(tensor) {
  if (is_plain(tensor)) return;
  const at::AutoDispatchBelowADInplaceOrView guard;
  dense_ = tensor.clone(at::MemoryFormat::Contiguous).resolve_conj().resolve_neg();
}

void DenseTensor::write_back() const {
  if (dense_.is_same(tensor_)) return;
  const at::AutoDispatchBelowADInplaceOrView guard;
  tensor_.copy_(dense_);
}

void check_cpu(const char* call, const at::Tensor& tensor) {
  TORCH_CHECK_VALUE(tensor.defined(), call, ": a tensor is undefined");
  TORCH_CHECK_VALUE(tensor.is_cpu(), call, ": a tensor is on ", tensor.device(),
                    "; shm supports only the CPU");
}

void check_writable(const char* call, const at::Tensor& tensor) {
  if (tensor.is_sparse()) return;
  TORCH_CHECK_VALUE(at::has_internal_overlap(tensor) != at::MemOverlap::Yes, call,
                    ": elements of a tensor share memory; expected a tensor that can be written, "
                    "such as a clone()");
}

void check_dense(const char* call, const at::Tensor& tensor) {
  check_cpu(call, tensor);
  TORCH_CHECK_VALUE(tensor.layout() == at::kStrided, call, ": a tensor has layout ",
                    tensor.layout(), "; shm supports only dense tensors");
}

}  // namespace distrun::shm

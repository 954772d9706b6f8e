#include "distrun/comm_hook.h"

#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>

namespace distrun {

Future completed_future(const at::Tensor& tensor) {
  auto future = c10::make_intrusive<c10::ivalue::Future>(c10::TensorType::get());
  future->markCompleted(tensor);
  return future;
}

}  // namespace distrun

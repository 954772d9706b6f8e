#include "testsuites/gloo/ddp.h"

#include <ATen/ATen.h>

namespace distrun {

at::Tensor DistributedDataParallelTest::eight(c10::Device device) {
  return at::full({}, 8.0, at::TensorOptions(device).dtype(at::kFloat));
}

void DistributedDataParallelTest::expect_error_logged(const c10::DDPLoggingData& data,
                                                      const std::string& text) {
  const auto error = data.strs_map.find("error");
  ASSERT_NE(error, data.strs_map.end());
  EXPECT_NE(error->second.find(text), std::string::npos) << error->second;
  EXPECT_EQ(data.ints_map.at("has_error"), 1);
}

}  // namespace distrun

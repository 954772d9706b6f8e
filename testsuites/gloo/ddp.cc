#include "testsuites/gloo/ddp.h"

#include <ATen/ATen.h>
#include <torch/cuda.h>

namespace distrun {

std::vector<c10::Device> DistributedDataParallelTest::gpus(std::size_t count) {
  const std::size_t all = torch::cuda::device_count();
  std::vector<c10::Device> mine;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t number = static_cast<std::size_t>(rank()) * count + i;
    mine.emplace_back(at::kCUDA, static_cast<c10::DeviceIndex>(number % all));
  }
  return mine;
}

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

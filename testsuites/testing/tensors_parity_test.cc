// Compares EXPECT_TENSORS_CLOSE with Python's verdicts on pairs from tensors_parity.py, read from
// stdin.
#include <cstring>
#include <iostream>
#include <map>

#include <ATen/ops/empty.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "distrun/testing/tensors.h"

namespace distrun {
namespace {

using nlohmann::json;

at::ScalarType dtype_of(const json& pair) {
  static const std::map<std::string, at::ScalarType> dtypes = {{"float16", at::kHalf},
                                                               {"bfloat16", at::kBFloat16},
                                                               {"float32", at::kFloat},
                                                               {"float64", at::kDouble},
                                                               {"complex64", at::kComplexFloat},
                                                               {"complex128", at::kComplexDouble},
                                                               {"bool", at::kBool},
                                                               {"uint8", at::kByte},
                                                               {"int8", at::kChar},
                                                               {"int16", at::kShort},
                                                               {"int32", at::kInt},
                                                               {"int64", at::kLong}};
  return dtypes.at(pair.at("dtype"));
}

at::Tensor tensor_of(const json& pair, const char* side) {
  const auto bytes = pair.at(side).get<std::vector<std::uint8_t>>();
  auto tensor = at::empty(pair.at("shape").get<std::vector<std::int64_t>>(), dtype_of(pair));
  EXPECT_EQ(tensor.nbytes(), bytes.size());
  std::memcpy(tensor.data_ptr(), bytes.data(), std::min(tensor.nbytes(), bytes.size()));
  return tensor;
}

TensorTolerance tolerance_of(const json& pair) {
  TensorTolerance tolerance{.equal_nan = pair.at("equal_nan")};
  if (const auto& given = pair.at("tolerance"); !given.is_null()) {
    tolerance.rtol = given.at(0).get<double>();
    tolerance.atol = given.at(1).get<double>();
  }
  return tolerance;
}

TEST(TensorsParityTest, AgreesWithPythonsAssertClose) {
  const json pairs = json::parse(std::cin);
  ASSERT_GT(pairs.size(), 1000U);
  for (const auto& pair : pairs) {
    const auto result = internal::tensors_close("actual", "expected", tensor_of(pair, "actual"),
                                                tensor_of(pair, "expected"), tolerance_of(pair));
    EXPECT_EQ(static_cast<bool>(result), pair.at("close").get<bool>()) << pair << "\n"
                                                                       << result.message();
  }
}

}  // namespace
}  // namespace distrun

// Against LibTorch's operators, applied to the sources one after the other.
#include "backends/shm/host/reduction.h"

#include <functional>
#include <limits>
#include <ostream>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "backends/shm/test/reduced_in_order.h"

namespace distrun::shm {
namespace {

struct Type {
  Element element;
  at::ScalarType type;
};

constexpr Type kTypes[] = {
    {Element::kBool, at::kBool},
    {Element::kUint8, at::kByte},
    {Element::kInt8, at::kChar},
    {Element::kInt16, at::kShort},
    {Element::kInt32, at::kInt},
    {Element::kInt64, at::kLong},
    {Element::kHalf, at::kHalf},
    {Element::kBFloat16, at::kBFloat16},
    {Element::kFloat32, at::kFloat},
    {Element::kFloat64, at::kDouble},
    {Element::kComplexHalf, at::kComplexHalf},
    {Element::kComplex64, at::kComplexFloat},
    {Element::kComplex128, at::kComplexDouble},
};

std::ostream& operator<<(std::ostream& out, const Type& type) { return out << type.type; }

RedOpType op_of(Reduction reduction) {
  switch (reduction) {
    case Reduction::kSum:
      return RedOpType::SUM;
    case Reduction::kAverage:
      return RedOpType::AVG;
    case Reduction::kProduct:
      return RedOpType::PRODUCT;
    case Reduction::kMin:
      return RedOpType::MIN;
    case Reduction::kMax:
      return RedOpType::MAX;
    case Reduction::kBitwiseAnd:
      return RedOpType::BAND;
    case Reduction::kBitwiseOr:
      return RedOpType::BOR;
    case Reduction::kBitwiseXor:
      return RedOpType::BXOR;
  }
  return RedOpType::UNUSED;
}

at::Tensor random_tensor(at::ScalarType type, std::int64_t count) {
  if (type == at::kBool) return at::randint(2, {count}).to(at::kBool);
  if (at::isIntegralType(type, false)) return at::randint(-128, 128, {count}).to(type);
  if (at::isComplexType(type)) return at::randn({count}, at::kComplexDouble).to(type);
  at::Tensor values = at::randn({count}, at::kDouble);
  if (count > 5) {
    values[3] = std::numeric_limits<double>::quiet_NaN();
    values[5] = std::numeric_limits<double>::infinity();
  }
  return values.to(type);
}

at::Tensor result_of(const Reducing& what, const std::vector<at::Tensor>& sources,
                     at::Tensor result) {
  std::vector<const std::byte*> addresses;
  addresses.reserve(sources.size());
  for (const at::Tensor& each : sources) {
    addresses.push_back(static_cast<const std::byte*>(each.const_data_ptr()));
  }
  reduce(what, addresses.data(), static_cast<int>(sources.size()),
         static_cast<std::size_t>(sources[0].numel()), static_cast<std::byte*>(result.data_ptr()));
  return result;
}

bool have_same_bits(const at::Tensor& a, const at::Tensor& b) {
  const auto bytes = [](const at::Tensor& x) {
    return std::string(static_cast<const char*>(x.const_data_ptr()), x.nbytes());
  };
  // The bits of a NaN are not specified.
  const bool is_floating = at::isFloatingType(a.scalar_type());
  return is_floating ? at::allclose(a, b, 0, 0, /*equal_nan=*/true) : bytes(a) == bytes(b);
}

class ReductionTest : public ::testing::TestWithParam<Reduction> {
 protected:
  void SetUp() override { at::manual_seed(1); }

  static void expect_order_of_sources(const Type& type) {
    const Reducing what{type.element, GetParam()};
    for (const std::size_t count : {1, 2, 3, 5}) {
      for (const std::int64_t numel : {0, 1, 7, 1024, 5003}) {
        SCOPED_TRACE(std::to_string(count) + " sources of " + std::to_string(numel));
        std::vector<at::Tensor> sources;
        for (std::size_t i = 0; i < count; ++i) sources.push_back(random_tensor(type.type, numel));
        const at::Tensor right = reduced_in_order(op_of(what.reduction), sources);
        EXPECT_TRUE(have_same_bits(result_of(what, sources, at::empty_like(right)), right));
        // A source may be the result.
        EXPECT_TRUE(have_same_bits(result_of(what, sources, sources.back()), right));
      }
    }
  }
};

INSTANTIATE_TEST_SUITE_P(All, ReductionTest,
                         ::testing::Values(Reduction::kSum, Reduction::kAverage,
                                           Reduction::kProduct, Reduction::kMin, Reduction::kMax,
                                           Reduction::kBitwiseAnd, Reduction::kBitwiseOr,
                                           Reduction::kBitwiseXor));

TEST_P(ReductionTest, CombinesTheSourcesInTheirOrder) {
  for (const Type& type : kTypes) {
    SCOPED_TRACE(::testing::PrintToString(type));
    const bool expects_defined = is_reduction_defined(type.type, op_of(GetParam()));
    ASSERT_EQ(is_defined({type.element, GetParam()}), expects_defined);
    ASSERT_EQ(bytes_of(type.element), c10::elementSize(type.type));
    if (expects_defined) expect_order_of_sources(type);
  }
}

// LibTorch's operators do not support these.
template <class T>
void expect_sums(Element element) {
  const T a[] = {std::numeric_limits<T>::max(), 2, 3}, b[] = {2, 5, 7};
  T sum[3] = {};
  const std::byte* sources[] = {reinterpret_cast<const std::byte*>(a),
                                reinterpret_cast<const std::byte*>(b)};
  reduce({element, Reduction::kSum}, sources, 2, 3, reinterpret_cast<std::byte*>(sum));
  EXPECT_EQ(sum[0], 1);  // Wraps around.
  EXPECT_EQ(sum[1], 7);
  EXPECT_EQ(sum[2], 10);
}

TEST(UnsignedReductionTest, SumsWrapAround) {
  expect_sums<std::uint16_t>(Element::kUint16);
  expect_sums<std::uint32_t>(Element::kUint32);
  expect_sums<std::uint64_t>(Element::kUint64);
}

}  // namespace
}  // namespace distrun::shm

#include "distrun/testing/tensors.h"

#include <cmath>
#include <cstdlib>
#include <limits>

#include <ATen/ops/_nested_tensor_from_tensor_list.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/imag.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/quantize_per_tensor.h>
#include <ATen/ops/sparse_coo_tensor.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest-spi.h>

#include "testsuites/testing/run_rank.h"

namespace distrun {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr auto kLowest = std::numeric_limits<std::int64_t>::min();
constexpr auto kHighest = std::numeric_limits<std::int64_t>::max();

// The failure's text; "alike" if there is none.
std::string equal_failure(const ComparedTensors& actual, const ComparedTensors& expected) {
  const auto result = internal::tensors_equal("actual", "expected", actual, expected);
  return result ? "alike" : result.message();
}
std::string close_failure(const ComparedTensors& actual, const ComparedTensors& expected,
                          const TensorTolerance& tolerance = {}) {
  const auto result = internal::tensors_close("actual", "expected", actual, expected, tolerance);
  return result ? "alike" : result.message();
}

at::Tensor sparse(std::vector<std::int64_t> at, std::vector<float> values) {
  const auto entries = static_cast<std::int64_t>(at.size());
  return at::sparse_coo_tensor(at::tensor(at).reshape({1, entries}), at::tensor(values), {5},
                               at::kFloat);
}

TEST(TensorsTest, AFailureNamesIndexValuesCountAndLargestErrors) {
  const auto actual = at::tensor({1.0, 2.5, 3.0, 4.0, 5.0, 8.0}).reshape({2, 3});
  const auto expected = at::tensor({1.0, 2.0, 3.0, 4.0, 5.0, 6.0}).reshape({2, 3});
  EXPECT_EQ(close_failure(actual, expected),
            "actual is not expected\n"
            "2 of 6 elements differ, the first at [0, 1]: 2.5, expected 2\n"
            "largest absolute error 2 at [1, 2], largest relative error 0.333333 at [1, 2]\n"
            "allowed for Double: rtol 1e-07, atol 1e-07");
}

TEST(TensorsTest, LocatesAbsoluteAndRelativeErrorsSeparately) {
  EXPECT_THAT(close_failure(at::tensor({2, 110}), at::tensor({1, 100})),
              AllOf(HasSubstr("absolute error 10 at [1]"), HasSubstr("relative error 1 at [0]")));
}

TEST(TensorsTest, StartsWithTheRank) {
  ::setenv("RANK", "3", 1);
  const std::string said = equal_failure(at::tensor({1}), at::tensor({2}));
  ::unsetenv("RANK");
  EXPECT_THAT(said, ::testing::StartsWith("rank 3: actual is not expected"));
}

TEST(TensorsTest, DtypeShapeAndLayoutAreStrict) {
  const auto x = at::zeros({2});
  EXPECT_THAT(equal_failure(x, at::zeros({2}, at::kDouble)),
              HasSubstr("dtype Float, expected Double"));
  EXPECT_THAT(equal_failure(x, at::zeros({2, 1})), HasSubstr("shape [2], expected [2, 1]"));
  EXPECT_THAT(equal_failure(x, at::zeros({1})), HasSubstr("shape [2], expected [1]"));
  EXPECT_THAT(equal_failure(x, x.to_sparse()), HasSubstr("layout Strided, expected Sparse"));
  EXPECT_THAT(equal_failure(x, at::zeros({2}, at::kMeta)), HasSubstr("device cpu, expected meta"));
}

TEST(TensorsTest, RejectsTensorsItCannotCompare) {
  const auto meta = at::zeros({2}, at::kMeta);
  EXPECT_THAT(equal_failure(meta, meta),
              HasSubstr("is a meta tensor: it has no values to compare"));
  const auto quantized = at::quantize_per_tensor(at::ones({2}), 0.1, 0, at::kQInt8);
  EXPECT_THAT(equal_failure(quantized, quantized),
              HasSubstr("is quantized: compare what dequantize() gives"));
  const auto csr = at::zeros({2, 2}).to_sparse_csr();
  EXPECT_THAT(equal_failure(csr, csr),
              HasSubstr("layout SparseCsr: compare what to_dense() gives"));
  const auto row = at::zeros({2});
  const auto nested = at::_nested_tensor_from_tensor_list({row, at::zeros({3})});
  for (const auto& [actual, expected] : {std::pair(nested, nested), {nested, row}, {row, nested}}) {
    EXPECT_THAT(equal_failure(actual, expected),
                HasSubstr("one of them is nested: compare what unbind() gives"));
  }
}

TEST(TensorsTest, StridesDoNotMatter) {
  const auto x = at::tensor({1, 2, 3, 4}).reshape({2, 2});
  EXPECT_EQ(equal_failure(x.t(), at::tensor({1, 3, 2, 4}).reshape({2, 2})), "alike");
  EXPECT_THAT(equal_failure(x.t(), x), HasSubstr("2 of 4 elements differ, the first at [0, 1]: 3"));
}

TEST(TensorsTest, EqualToleratesNothing) {
  const float above = std::nextafter(1.0f, 2.0f);
  EXPECT_THAT(equal_failure(at::tensor({1.0f}), at::tensor({above})),
              HasSubstr("1, expected 1.0000001"));
  EXPECT_EQ(close_failure(at::tensor({1.0f}), at::tensor({above})), "alike");
}

TEST(TensorsTest, EveryDtypeHasItsTolerance) {
  const auto differs = [](at::ScalarType dtype, double by) {
    return close_failure(at::full({1}, 1 + by, dtype), at::full({1}, 1, dtype)) != "alike";
  };
  for (const auto& [dtype, rtol] : std::vector<std::pair<at::ScalarType, double>>{
           {at::kBFloat16, 1.6e-2}, {at::kFloat, 1.3e-6}, {at::kDouble, 1e-7}}) {
    EXPECT_FALSE(differs(dtype, rtol / 2)) << dtype;
    EXPECT_TRUE(differs(dtype, rtol * 10 + 1e-5)) << dtype;
  }
  EXPECT_FALSE(differs(at::kHalf, 1e-3));
  EXPECT_TRUE(differs(at::kHalf, 3e-3));
  EXPECT_TRUE(differs(at::kInt, 1));
  EXPECT_EQ(close_failure(at::tensor({0.9e-5f}), at::tensor({0.0f})), "alike");
  EXPECT_NE(close_failure(at::tensor({1.1e-5f}), at::tensor({0.0f})), "alike");
}

TEST(TensorsTest, AToleranceReplacesTheDefaults) {
  const auto x = at::tensor({100});
  EXPECT_EQ(close_failure(x, at::tensor({110}), {.rtol = 0.1, .atol = 0}), "alike");
  EXPECT_EQ(close_failure(x, at::tensor({110}), {.rtol = 0, .atol = 10}), "alike");
  EXPECT_NE(close_failure(x, at::tensor({110}), {.rtol = 0, .atol = 9.5}), "alike");
  EXPECT_THAT(close_failure(x, x, {.rtol = 0.1}), HasSubstr("give both rtol and atol, or neither"));
}

TEST(TensorsTest, NanIsEqualOnRequest) {
  const auto x = at::tensor({1.0f, kNan});
  EXPECT_THAT(close_failure(x, x), AllOf(HasSubstr("1 of 2"), HasSubstr("[1]: nan, expected nan"),
                                         HasSubstr("absolute error nan at [1]")));
  EXPECT_NE(equal_failure(x, x), "alike");
  EXPECT_EQ(close_failure(x, x, {.equal_nan = true}), "alike");
  EXPECT_NE(close_failure(x, at::tensor({1.0f, 2.0f}), {.equal_nan = true}), "alike");
  EXPECT_NE(close_failure(at::tensor({1.0f, 2.0f}), x, {.equal_nan = true}), "alike");
}

TEST(TensorsTest, NanIsTheLargestErrorAtAnyIndex) {
  EXPECT_THAT(close_failure(at::tensor({1.0f, kNan, 9.0f}), at::zeros({3})),
              HasSubstr("absolute error nan at [1]"));
}

TEST(TensorsTest, InfinitiesAreCloseOnlyToThemselves) {
  const auto infinite = at::tensor({kInfinity});
  EXPECT_EQ(close_failure(infinite, infinite), "alike");
  EXPECT_NE(close_failure(infinite, infinite.neg()), "alike");
  EXPECT_NE(close_failure(at::tensor({3e38f}), infinite), "alike");
  EXPECT_NE(close_failure(infinite, at::tensor({3e38f}), {.rtol = 1, .atol = 1e300}), "alike");
}

TEST(TensorsTest, IntegersDoNotOverflow) {
  EXPECT_THAT(close_failure(at::tensor({kHighest}), at::tensor({kLowest})),
              HasSubstr("9223372036854775807, expected -9223372036854775808\n"
                        "largest absolute error 1.84467e+19 at [0]"));
  EXPECT_NE(equal_failure(at::tensor({kHighest}), at::tensor({kHighest - 1})), "alike");
  EXPECT_NE(
      close_failure(at::tensor({kHighest}), at::tensor({kHighest - 9}), {.rtol = 0, .atol = 8}),
      "alike");
  const auto bytes = [](int value) { return at::full({1}, value, at::kByte); };
  EXPECT_NE(close_failure(bytes(0), bytes(255), {.rtol = 0, .atol = 1}), "alike");
  EXPECT_THAT(equal_failure(bytes(0), bytes(255)), HasSubstr("absolute error 255"));
}

TEST(TensorsTest, LargeUint64ValuesAreNotNegative) {
  const auto all_bits = at::tensor({std::int64_t{-1}}).view(at::kUInt64);
  EXPECT_THAT(equal_failure(all_bits, at::zeros({1}, at::kUInt64)),
              HasSubstr("18446744073709551615, expected 0"));
}

TEST(TensorsTest, PrintsBooleansAsWords) {
  const auto yes = at::full({2}, true, at::kBool);
  EXPECT_EQ(equal_failure(yes, yes), "alike");
  EXPECT_THAT(equal_failure(yes, yes.logical_not()),
              HasSubstr("2 of 2 elements differ, the first at [0]: true, exp"));
}

TEST(TensorsTest, ComparesComplexNumbersByDistance) {
  const auto z = at::full({1}, c10::complex<double>(3, -4), at::kComplexFloat);
  EXPECT_EQ(close_failure(z, z), "alike");
  EXPECT_EQ(close_failure(z, z.add(1), {.rtol = 0.2, .atol = 0.1}), "alike");
  EXPECT_THAT(close_failure(z, z.conj()),
              AllOf(HasSubstr("3-4i, expected 3+4i"), HasSubstr("absolute error 8"),
                    HasSubstr("relative error 1.6")));
}

TEST(TensorsTest, ResolvesLazyConjugatesAndNegatives) {
  const auto z = at::full({1}, c10::complex<double>(3, -4), at::kComplexDouble);
  EXPECT_THAT(equal_failure(z.conj(), z), HasSubstr("3+4i, expected 3-4i"));
  const auto lazily_negative = at::imag(z.conj());
  ASSERT_TRUE(lazily_negative.is_neg());
  EXPECT_EQ(equal_failure(lazily_negative, at::full({1}, 4.0, at::kDouble)), "alike");
}

TEST(TensorsTest, HalfDifferencesDoNotOverflow) {
  const auto x = at::full({1}, 65504, at::kHalf);
  EXPECT_THAT(close_failure(x, x.neg()),
              HasSubstr("65504, expected -65504\nlargest absolute error 131008"));
}

TEST(TensorsTest, EmptyTensorsAreEqualIfTheirShapesAre) {
  EXPECT_EQ(equal_failure(at::empty({0}), at::empty({0})), "alike");
  EXPECT_NE(equal_failure(at::empty({0}), at::empty({0, 3})), "alike");
  EXPECT_NE(equal_failure(at::empty({0}), at::empty({0}, at::kInt)), "alike");
}

TEST(TensorsTest, ATensorWithoutDimensionsHasTheEmptyIndex) {
  EXPECT_THAT(equal_failure(at::full({}, 1.5), at::full({}, 2.0)),
              HasSubstr("at []: 1.5, expected 2"));
  EXPECT_NE(equal_failure(at::full({}, 1), at::full({1}, 1)), "alike");
}

TEST(TensorsTest, UndefinedTensorsAreEqual) {
  EXPECT_EQ(equal_failure(at::Tensor(), at::Tensor()), "alike");
  EXPECT_THAT(equal_failure(at::Tensor(), at::zeros({1})),
              HasSubstr("is undefined, expected a tensor"));
  EXPECT_THAT(equal_failure(at::zeros({1}), at::Tensor()),
              HasSubstr("is a tensor, expected an undefined one"));
}

TEST(TensorsTest, SparseTensorsAreCoalescedFirst) {
  EXPECT_EQ(equal_failure(sparse({3, 1, 3}, {1, 2, 4}), sparse({1, 3}, {2, 5})), "alike");
  EXPECT_THAT(equal_failure(sparse({3, 1, 3}, {1, 2, 4}), sparse({1, 3}, {2, 4})),
              HasSubstr("1 of 2 elements differ in the stored values, the first at [1]: 5"));
  EXPECT_THAT(equal_failure(sparse({1, 3}, {2, 4}), sparse({1, 4}, {2, 4})),
              HasSubstr("in the sparse indices, the first at [0, 1]: 3, expected 4"));
  EXPECT_THAT(equal_failure(sparse({1, 2}, {2, 0}), sparse({1}, {2})),
              HasSubstr("number of sparse dimensions, number of stored values [1, 2], expected "
                        "[1, 1]"));
  EXPECT_EQ(close_failure(sparse({1}, {1.000001f}), sparse({1}, {1})), "alike");
}

TEST(TensorsTest, ComparesListsByMember) {
  const auto a = at::tensor({1}), b = at::tensor({2});
  const std::vector<at::Tensor> list = {a, b};
  EXPECT_EQ(equal_failure(list, {a, b}), "alike");
  EXPECT_EQ(equal_failure(at::TensorList(list), list), "alike");
  EXPECT_THAT(equal_failure(list, {a, a}), HasSubstr("member 1: 1 of 1 elements differ"));
  EXPECT_THAT(equal_failure(list, {a}), HasSubstr("length 2, expected 1"));
  EXPECT_THAT(equal_failure(list, a), HasSubstr("is a list, expected a tensor"));
  EXPECT_THAT(equal_failure(a, {a}), HasSubstr("is a tensor, expected a list"));
  EXPECT_THAT(equal_failure(list, {}), HasSubstr("length 2, expected 0"));
}

TEST(TensorsTest, ComparesNestedLists) {
  const auto a = at::tensor({1}), b = at::tensor({2});
  const std::vector<std::vector<at::Tensor>> lists = {{a, b}, {b}};
  EXPECT_EQ(equal_failure(lists, {{a, b}, {b}}), "alike");
  EXPECT_THAT(equal_failure(lists, {{a, b}, {a}}), HasSubstr("member 1: member 0: 1 of 1"));
}

TEST(TensorsTest, MacrosAreStatementsAndAcceptAMessage) {
  const auto a = at::tensor({1.0f}), b = at::tensor({2.0f});
  const std::vector<at::Tensor> list = {a, b};
  EXPECT_TENSORS_EQUAL(a, a);
  EXPECT_TENSORS_EQUAL(list, {a, b});
  EXPECT_TENSORS_CLOSE(list, {a, b}, {.rtol = 0, .atol = 0, .equal_nan = true});
  if (list.empty())
    EXPECT_TENSORS_EQUAL(a, b);
  else
    ASSERT_TENSORS_CLOSE(a, a) << "not said";
  EXPECT_NONFATAL_FAILURE(EXPECT_TENSORS_EQUAL(list, {b, a}) << "step 4", "list is not {b, a}");
  EXPECT_NONFATAL_FAILURE(EXPECT_TENSORS_CLOSE(a, b) << "step 4", "step 4");
}

TEST(TensorsTest, AnAssertMacroReturnsFromTheFunction) {
  static bool went_on = false;
  EXPECT_FATAL_FAILURE(
      {
        ASSERT_TENSORS_EQUAL(at::tensor({1}), at::tensor({2}));
        went_on = true;
      },
      "1 of 1 elements differ");
  EXPECT_FATAL_FAILURE(
      {
        ASSERT_TENSORS_CLOSE(at::tensor({1}), at::tensor({2}));
        went_on = true;
      },
      "1 of 1 elements differ");
  EXPECT_FALSE(went_on);
}

TEST(TensorsTest, EachMacroCountsAsOneAssertion) {
  const auto a = at::tensor({1});
  const int before = assertions_made();
  EXPECT_TENSORS_EQUAL(a, a);
  EXPECT_TENSORS_CLOSE(a, a);
  ASSERT_TENSORS_EQUAL(a, a);
  ASSERT_TENSORS_CLOSE(a, a);
  const int made = assertions_made() - before;
  EXPECT_EQ(made, 4);
}

}  // namespace
}  // namespace distrun

#include "distrun/visit_tensors.h"

#include <array>
#include <chrono>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include <ATen/ops/full.h>
#include <gmock/gmock.h>
#include <torch/ordered_dict.h>

#include "distrun/visit_packed_sequence.h"

namespace visit_tensors_test {

// A user's types, supported by functions next to them.
struct Output {
  at::Tensor logits;
  std::vector<at::Tensor> hidden;
  std::string name;
};
template <class Visit>
void visit_tensors(Output& output, const Visit& visit) {
  visit(output.logits);
  visit(output.hidden);
}

class Secret {
 public:
  explicit Secret(at::Tensor tensor) : tensor_(std::move(tensor)) {}

 private:
  // A friend that is not a template.
  friend void visit_tensors(Secret& secret, const std::function<void(at::Tensor&)>& visit) {
    visit(secret.tensor_);
  }
  at::Tensor tensor_;
};

struct Tree {
  at::Tensor tensor;
  std::vector<Tree> children;
};
template <class Visit>
void visit_tensors(Tree& tree, const Visit& visit) {
  visit(tree.tensor);
  visit(tree.children);
}

// Converts to a string, but its function takes precedence.
struct Named {
  at::Tensor tensor;
  operator std::string_view() const { return "named"; }
};
template <class Visit>
void visit_tensors(Named& named, const Visit& visit) {
  visit(named.tensor);
}

// Leaves a variant without a value.
struct Throws {
  explicit Throws(int thrown) { throw thrown; }
  Throws(const Throws&) {}
};
template <class Visit>
void visit_tensors(Throws&, const Visit&) {}

struct Unknown {
  at::Tensor tensor;
};
struct NeverDefined;
struct Statistics {
  int steps = 0;
  double loss = 0;
};
struct PathLike : std::vector<PathLike> {};

}  // namespace visit_tensors_test

namespace distrun {
namespace {

using namespace visit_tensors_test;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

at::Tensor number(double value) { return at::full({}, value); }

// Returns the numbers in `value`, and multiplies each by ten.
template <class Value>
std::vector<double> found(Value& value) {
  std::vector<double> numbers;
  for_each_tensor(value, [&](at::Tensor& tensor) {
    numbers.push_back(tensor.defined() ? tensor.item<double>() : -1);
    tensor = number(10 * numbers.back());
  });
  return numbers;
}

TEST(VisitTensors, FindsAndReplacesATensor) {
  at::Tensor tensor = number(1);
  const at::Tensor before = tensor;
  EXPECT_THAT(found(tensor), ElementsAre(1));
  EXPECT_EQ(tensor.item<double>(), 10);
  EXPECT_EQ(before.item<double>(), 1);
}
TEST(VisitTensors, FindsAnUndefinedTensor) {
  at::Tensor tensor;
  EXPECT_THAT(found(tensor), ElementsAre(-1));
}
TEST(VisitTensors, FindsNoTensorInNumbersAndStrings) {
  std::tuple value(1, 2.5F, true, 'c', std::string("text"), "text", std::string_view("text"),
                   nullptr, at::kFloat, at::Scalar(3), c10::Device("cpu"), std::monostate(),
                   std::chrono::seconds(1), Statistics(), std::vector<bool>{true});
  EXPECT_THAT(found(value), IsEmpty());
}

TEST(VisitTensors, VisitsRangesInOrder) {
  std::vector vector{number(1), number(2)};
  EXPECT_THAT(found(vector), ElementsAre(1, 2));
  EXPECT_THAT(found(vector), ElementsAre(10, 20));
  std::deque deque{number(1), number(2)};
  EXPECT_THAT(found(deque), ElementsAre(1, 2));
  std::array array{number(1), number(2)};
  EXPECT_THAT(found(array), ElementsAre(1, 2));
  at::Tensor plain_array[] = {number(1), number(2)};
  EXPECT_THAT(found(plain_array), ElementsAre(1, 2));
  std::span span(vector);
  EXPECT_THAT(found(span), ElementsAre(100, 200));
  std::vector<at::Tensor> none;
  EXPECT_THAT(found(none), IsEmpty());
}
TEST(VisitTensors, VisitsMapsByKey) {
  std::map<std::string, at::Tensor> map{{"b", number(2)}, {"a", number(1)}};
  EXPECT_THAT(found(map), ElementsAre(1, 2));
  EXPECT_EQ(map["b"].item<double>(), 20);
  std::unordered_map<int, at::Tensor> hashed{{1, number(1)}, {2, number(2)}};
  EXPECT_THAT(found(hashed), UnorderedElementsAre(1, 2));
  EXPECT_EQ(hashed[2].item<double>(), 20);
}
// A tensor in these types could be overlooked, and would not be reduced.
struct Boxes : std::vector<at::Tensor> {
  at::Tensor scores;
};
struct KeyedTensors {
  at::Tensor first, second;
  at::Tensor& key() { return first; }
  at::Tensor& value() { return second; }
};
struct Borrowed {
  at::Tensor& tensor;
};
static_assert(!KnowsTensors<Boxes>);
static_assert(!KnowsTensors<KeyedTensors>);
static_assert(!KnowsTensors<Borrowed>);

TEST(VisitTensors, VisitsAnOrderedDictInOrderOfInsertion) {
  torch::OrderedDict<std::string, at::Tensor> dict;
  dict.insert("b", number(2));
  dict.insert("a", number(1));
  EXPECT_THAT(found(dict), ElementsAre(2, 1));
  EXPECT_EQ(dict["b"].item<double>(), 20);
}
TEST(VisitTensors, VisitsPairsAndTuplesFromLeftToRight) {
  std::pair pair(number(1), number(2));
  EXPECT_THAT(found(pair), ElementsAre(1, 2));
  std::tuple tuple(number(3), 0, number(4), std::string("text"));
  EXPECT_THAT(found(tuple), ElementsAre(3, 4));
  EXPECT_EQ(std::get<2>(tuple).item<double>(), 40);
  std::tuple<> none;
  EXPECT_THAT(found(none), IsEmpty());
}
TEST(VisitTensors, ReplacesTensorsThatATupleRefersTo) {
  at::Tensor a = number(1);
  at::Tensor b = number(2);
  auto tie = std::tie(a, b);
  EXPECT_THAT(found(tie), ElementsAre(1, 2));
  std::tuple wrapped(std::ref(a), 0);
  static_assert(
      std::same_as<decltype(wrapped), std::tuple<std::reference_wrapper<at::Tensor>, int>>);
  EXPECT_THAT(found(wrapped), ElementsAre(10));
  EXPECT_EQ(a.item<double>(), 100);
  EXPECT_EQ(b.item<double>(), 20);
}

TEST(VisitTensors, AcceptsAnEmptyOptional) {
  std::optional<at::Tensor> full = number(1);
  std::optional<at::Tensor> empty;
  EXPECT_THAT(found(full), ElementsAre(1));
  EXPECT_EQ(full->item<double>(), 10);
  EXPECT_THAT(found(empty), IsEmpty());
  EXPECT_FALSE(empty);
}
TEST(VisitTensors, AcceptsANullPointer) {
  auto unique = std::make_unique<at::Tensor>(number(1));
  EXPECT_THAT(found(unique), ElementsAre(1));
  const auto shared = std::make_shared<Output>(Output{number(2), {}, ""});
  EXPECT_THAT(found(shared), ElementsAre(2));
  EXPECT_EQ(shared->logits.item<double>(), 20);
  std::unique_ptr<at::Tensor> no_unique;
  std::shared_ptr<Output> no_shared;
  EXPECT_THAT(found(no_unique), IsEmpty());
  EXPECT_THAT(found(no_shared), IsEmpty());
}
TEST(VisitTensors, VisitsTheActiveAlternativeOfAVariant) {
  using Variant = std::variant<std::monostate, at::Tensor, std::vector<at::Tensor>, int>;
  std::vector<Variant> variants{Variant(), number(1), std::vector{number(2), number(3)}, 4};
  EXPECT_THAT(found(variants), ElementsAre(1, 2, 3));
  EXPECT_EQ(std::get<at::Tensor>(variants[1]).item<double>(), 10);
}
TEST(VisitTensors, FindsNoTensorInAValuelessVariant) {
  std::variant<at::Tensor, Throws> variant = number(1);
  EXPECT_THROW(variant.emplace<Throws>(1), int);
  ASSERT_TRUE(variant.valueless_by_exception());
  EXPECT_THAT(found(variant), IsEmpty());
}

TEST(VisitTensors, VisitsAUsersTypeWithItsFunction) {
  Output output{number(1), {number(2), number(3)}, "name"};
  EXPECT_THAT(found(output), ElementsAre(1, 2, 3));
  EXPECT_EQ(output.hidden[1].item<double>(), 30);
  Secret secret(number(4));
  EXPECT_THAT(found(secret), ElementsAre(4));
  EXPECT_THAT(found(secret), ElementsAre(40));
  Named named{number(5)};
  EXPECT_THAT(found(named), ElementsAre(5));
}
TEST(VisitTensors, VisitsARecursiveType) {
  Tree tree{number(1), {{number(2), {{number(3), {}}}}, {number(4), {}}}};
  EXPECT_THAT(found(tree), ElementsAre(1, 2, 3, 4));
}
TEST(VisitTensors, VisitsNestedTypes) {
  std::map<std::string, std::vector<std::optional<std::pair<Output, int>>>> value;
  value["a"] = {std::nullopt, std::pair(Output{number(1), {number(2)}, ""}, 0)};
  value["b"] = {std::pair(Output{number(3), {}, ""}, 0)};
  EXPECT_THAT(found(value), ElementsAre(1, 2, 3));
  EXPECT_EQ(value["b"][0]->first.logits.item<double>(), 30);
}
TEST(VisitTensors, AcceptsConstValuesWithoutTensors) {
  std::tuple<const std::string, at::Tensor, const int, const std::vector<int>> tuple("", number(1),
                                                                                     2, {});
  EXPECT_THAT(found(tuple), ElementsAre(1));
  const auto pointers = std::make_tuple(std::make_shared<at::Tensor>(number(2)));
  EXPECT_THAT(found(pointers), ElementsAre(2));
}

TEST(VisitTensors, KeepsBatchSizesOfAPackedSequence) {
  using torch::nn::utils::rnn::PackedSequence;
  PackedSequence sequence(number(1), number(2), number(3), number(4));
  EXPECT_THAT(found(sequence), ElementsAre(1, 3, 4));
  EXPECT_EQ(sequence.data().item<double>(), 10);
  EXPECT_EQ(sequence.batch_sizes().item<double>(), 2);
  EXPECT_EQ(sequence.sorted_indices().item<double>(), 30);
  EXPECT_EQ(sequence.unsorted_indices().item<double>(), 40);
  PackedSequence unsorted(number(1), number(2));
  for_each_tensor(unsorted, [](at::Tensor&) {});
  EXPECT_FALSE(unsorted.sorted_indices().defined());
}

// A tensor in these types could be overlooked, or its replacement lost.
TEST(KnowsTensors, IsFalseForTypesThatCannotBeVisited) {
  EXPECT_FALSE(KnowsTensors<Unknown>);
  EXPECT_FALSE(KnowsTensors<std::vector<Unknown>>);
  EXPECT_FALSE((KnowsTensors<std::tuple<at::Tensor, std::optional<Unknown>>>));
  EXPECT_FALSE((KnowsTensors<std::variant<at::Tensor, Unknown>>));
  EXPECT_FALSE(KnowsTensors<std::shared_ptr<NeverDefined>>);
  EXPECT_FALSE(KnowsTensors<std::shared_ptr<void>>);
  EXPECT_FALSE(KnowsTensors<std::unique_ptr<at::Tensor[]>>);
  EXPECT_FALSE(KnowsTensors<at::Tensor*>);
  EXPECT_FALSE(KnowsTensors<std::function<at::Tensor()>>);
}
TEST(KnowsTensors, IsFalseForTensorsThatCannotBeReplaced) {
  EXPECT_FALSE(KnowsTensors<const at::Tensor>);
  EXPECT_FALSE(KnowsTensors<const std::vector<at::Tensor>&>);
  EXPECT_FALSE(KnowsTensors<std::shared_ptr<const at::Tensor>>);
  EXPECT_FALSE((KnowsTensors<std::pair<const at::Tensor, int>>));
  EXPECT_FALSE((KnowsTensors<const std::variant<at::Tensor, int>>));
  EXPECT_FALSE(KnowsTensors<const Output>);
  EXPECT_FALSE(KnowsTensors<at::TensorList>);
  using Made = decltype(std::views::iota(0, 3) | std::views::transform(number));
  EXPECT_FALSE(KnowsTensors<Made>);
}
TEST(KnowsTensors, IsFalseForTypesThatIterateOverThemselves) {
  EXPECT_FALSE(KnowsTensors<PathLike>);
  EXPECT_FALSE(KnowsTensors<std::filesystem::path>);
}
TEST(KnowsTensors, IsTrueForTypesThatCanBeVisited) {
  EXPECT_TRUE(KnowsTensors<at::Tensor>);
  EXPECT_TRUE(KnowsTensors<at::Tensor&>);
  EXPECT_TRUE((KnowsTensors<std::map<std::string, std::vector<Output>>>));
  EXPECT_TRUE((KnowsTensors<const std::map<std::string, int>>));
  EXPECT_TRUE(KnowsTensors<decltype(std::views::iota(0, 3))>);
}

}  // namespace
}  // namespace distrun

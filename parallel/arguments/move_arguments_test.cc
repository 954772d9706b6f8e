#include "distrun/detail/move_arguments.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

namespace distrun {

struct Batch {
  at::Tensor images;
  std::string name;
};
template <class Visit>
void visit_tensors(Batch& batch, const Visit& visit) {
  visit(batch.images);
}

namespace internal {
namespace {

const c10::Device kThere(at::kMeta);  // Exists on every machine.

template <class Argument>
Changed<Argument> moved(Argument&& argument, const c10::Device& device) {
  return changed(std::forward<Argument>(argument),
                 [&](const at::Tensor& tensor) { return tensor.to(device); });
}

bool is_there(const at::Tensor& tensor) { return tensor.device() == kThere; }

TEST(MoveArgumentsTest, MovesTensorsAndKeepsTheCallers) {
  const at::Tensor x = at::ones({2});
  EXPECT_TRUE(is_there(moved(x, kThere)));
  EXPECT_FALSE(is_there(x));
  std::vector<at::Tensor> list = {x, at::Tensor()};
  const auto there = moved(list, kThere);
  EXPECT_TRUE(is_there(there[0]));
  EXPECT_FALSE(there[1].defined());
  EXPECT_FALSE(is_there(list[0]));
}

TEST(MoveArgumentsTest, MovesNestedTensors) {
  const at::Tensor x = at::ones({2});
  const std::pair<int, std::map<std::string, std::optional<at::Tensor>>> nested = {
      1, {{"a", x}, {"b", std::nullopt}}};
  EXPECT_TRUE(is_there(*moved(nested, kThere).second.at("a")));
  EXPECT_TRUE(is_there(std::get<at::Tensor>(moved(std::variant<int, at::Tensor>(x), kThere))));
  const Batch batch = {x, "b"};
  EXPECT_TRUE(is_there(moved(batch, kThere).images));
  EXPECT_FALSE(is_there(batch.images));
}

TEST(MoveArgumentsTest, PassesOnValuesWithoutTensorsUncopied) {
  int calls = 0;
  EXPECT_EQ(&moved(calls, kThere), &calls);
  const std::string name = "a name";
  EXPECT_EQ(&moved(name, kThere), &name);
  std::vector<std::unique_ptr<int>> owners(2);
  EXPECT_EQ(&moved(owners, kThere), &owners);
  auto owner = std::make_unique<int>(1);
  int* const was = owner.get();
  const std::unique_ptr<int> taken = moved(std::move(owner), kThere);
  EXPECT_EQ(taken.get(), was);
}

// A copied pointer refers to the caller's tensor, which must not move.
TEST(MoveArgumentsTest, DoesNotMoveTensorsBehindPointers) {
  const auto shared = std::make_shared<at::Tensor>(at::ones({2}));
  EXPECT_FALSE(is_there(*moved(shared, kThere)));
  const std::pair<at::Tensor, std::shared_ptr<at::Tensor>> both = {*shared, shared};
  const auto there = moved(both, kThere);
  EXPECT_TRUE(is_there(there.first));
  EXPECT_FALSE(is_there(*there.second));
  EXPECT_FALSE(is_there(*shared));
}

}  // namespace
}  // namespace internal
}  // namespace distrun

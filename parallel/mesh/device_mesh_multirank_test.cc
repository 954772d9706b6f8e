// Groups of DeviceMesh on every rank of a run.
#include <string>
#include <vector>

#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>

#include "backends/test/multirank_test.h"
#include "distrun/device_mesh.h"
#include "distrun/process_group.h"

namespace distrun {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class DeviceMeshMultirankTest : public MultirankTest {
 protected:
  static int sum_over(const Group& group) {
    const at::Tensor sum = at::ones({1}, at::kInt) * get_rank();
    all_reduce(sum, ReduceOp::SUM, {.group = group});
    return sum.item<int>();
  }
};

TEST_F(DeviceMeshMultirankTest, OneDimensionIsTheDefaultGroup) {
  const DeviceMesh mesh = init_device_mesh(at::kCPU, {get_world_size()});
  EXPECT_TRUE(mesh.get_group().is_default());
  EXPECT_EQ(mesh.get_local_rank(), get_rank());
  EXPECT_THAT(mesh.get_coordinate().value(), ElementsAre(get_rank()));
  EXPECT_EQ(mesh.size(), get_world_size());
  EXPECT_EQ(mesh.size(0), get_world_size());
  EXPECT_THAT(mesh.mesh_dim_names(), IsEmpty());
  EXPECT_EQ(mesh.device_type(), at::kCPU);
}

TEST_F(DeviceMeshMultirankTest, EachDimensionHasAGroup) {
  const int ranks = get_world_size();
  const DeviceMesh mesh = init_device_mesh(at::kCPU, {1, ranks, 1}, {"pp", "dp", "tp"});
  EXPECT_THAT(mesh.shape(), ElementsAre(1, ranks, 1));
  EXPECT_EQ(mesh.get_local_rank("dp"), get_rank());
  EXPECT_EQ(mesh.get_local_rank("tp"), 0);
  EXPECT_EQ(sum_over(mesh.get_group("dp")), ranks * (ranks - 1) / 2);
  EXPECT_EQ(sum_over(mesh.get_group("tp")), get_rank());
  EXPECT_EQ(sum_over(mesh.get_group(std::size_t{0})), get_rank());
  EXPECT_TRUE(mesh["dp"].mesh().equal(at::arange(ranks)));
  EXPECT_EQ(mesh["tp"].get_group(), mesh.get_group("tp"));
  EXPECT_EQ(mesh["tp"].get_local_rank(), 0);
  const DeviceMesh two = mesh[{"dp", "tp"}];
  EXPECT_THAT(two.shape(), ElementsAre(ranks, 1));
  EXPECT_THAT(two.mesh_dim_names(), ElementsAre("dp", "tp"));
  EXPECT_THAT(two.get_coordinate().value(), ElementsAre(get_rank(), 0));
}

// On 4 ranks, two rows of two ranks.
TEST_F(DeviceMeshMultirankTest, RowsAndColumnsAreDifferentGroups) {
  const int rows = get_world_size() % 2 == 0 ? 2 : 1, columns = get_world_size() / rows;
  const int row = get_rank() / columns, column = get_rank() % columns;
  const DeviceMesh mesh = init_device_mesh(at::kCPU, {rows, columns}, {"dp", "tp"});
  EXPECT_EQ(mesh.get_local_rank("dp"), row);
  EXPECT_EQ(mesh.get_local_rank("tp"), column);
  std::vector<int> in_row, in_column;
  for (int i = 0; i < columns; ++i) in_row.push_back(row * columns + i);
  for (int i = 0; i < rows; ++i) in_column.push_back(i * columns + column);
  EXPECT_EQ(get_process_group_ranks(mesh.get_group("tp")), in_row);
  EXPECT_EQ(get_process_group_ranks(mesh.get_group("dp")), in_column);
  EXPECT_TRUE(mesh["tp"].mesh().equal(at::tensor(in_row)));
  EXPECT_TRUE(mesh["dp"].mesh().equal(at::tensor(in_column)));
}

TEST_F(DeviceMeshMultirankTest, AMeshCanLeaveRanksOut) {
  const int last = get_world_size() - 1;
  const DeviceMesh mesh(at::kCPU, at::tensor({last}), {"x"});
  EXPECT_EQ(mesh.get_coordinate().has_value(), get_rank() == last);
  if (get_rank() == last) {
    EXPECT_EQ(sum_over(mesh.get_group()), last);
    return;
  }
  const std::string out = "DeviceMesh: rank " + std::to_string(get_rank()) + " is not in the mesh";
  EXPECT_EQ(error_of([&] { mesh.get_group(); }), out);
  EXPECT_EQ(error_of([&] { mesh.get_local_rank("x"); }), out);
  EXPECT_EQ(error_of([&] { mesh["x"]; }), out);
}

TEST_F(DeviceMeshMultirankTest, ErrorsNameTheArgument) {
  const auto error = [](const at::Tensor& ranks, const std::vector<std::string>& names = {}) {
    return error_of([&] { DeviceMesh(at::kCPU, ranks, names); });
  };
  const int ranks = get_world_size();
  EXPECT_EQ(error(at::tensor({ranks})), "DeviceMesh: rank " + std::to_string(ranks) +
                                            " is out of range; expected 0 to " +
                                            std::to_string(ranks - 1));
  EXPECT_EQ(error(at::tensor({0, 0})), "DeviceMesh: rank 0 occurs twice");
  EXPECT_EQ(error(at::ones({1})),
            "DeviceMesh: the ranks have dtype Float and sizes [1]; expected integers, at least "
            "one, in at least one dimension");
  EXPECT_EQ(error(at::tensor({0}), {"a", "b"}),
            "DeviceMesh: it has 2 names, and the number of dimensions is 1");
  EXPECT_EQ(error(at::tensor({0}).view({1, 1}), {"a", "a"}),
            "DeviceMesh: the name 'a' is empty or occurs twice");
  EXPECT_EQ(error_of([&] {
              init_device_mesh(at::kCPU, {ranks, 2});
            }),
            "init_device_mesh: shape [" + std::to_string(ranks) + ", 2] has " +
                std::to_string(2 * ranks) + " ranks, and the run " + std::to_string(ranks));
  EXPECT_THAT(error_of([&] {
                init_device_mesh(at::kCPU, {-1, -ranks});
              }),
              ::testing::HasSubstr("init_device_mesh: shape [-1, "));
  const DeviceMesh mesh = init_device_mesh(at::kCPU, {1, ranks}, {"dp", "tp"});
  EXPECT_EQ(error_of([&] { mesh["pp"]; }), "DeviceMesh: it has no dimension 'pp'; it has: dp, tp");
  EXPECT_EQ(error_of([&] { mesh.get_group(); }),
            "DeviceMesh: it has 2 dimensions; name one of them");
  EXPECT_EQ(error_of([&] {
              mesh[{"tp", "dp"}];
            }),
            "DeviceMesh: dimension 'dp' is not in the order of the mesh: dp, tp");
  EXPECT_EQ(error_of([&] { mesh.get_group(std::size_t{2}); }), "DeviceMesh: it has no dimension 2");
  EXPECT_EQ(error_of([&] { mesh.size(3); }), "DeviceMesh: it has no dimension 3");
}

}  // namespace
}  // namespace distrun

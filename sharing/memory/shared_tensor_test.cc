#include "distrun/shared_tensor.h"

#include <cstdlib>

#include <ATen/ops/_efficientzerotensor.h>
#include <ATen/ops/_lazy_clone.h>
#include <ATen/ops/_nested_tensor_from_tensor_list.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/from_file.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/quantize_per_tensor.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "sharing/memory/shared_memory.h"
#include "sharing/memory/test/child_process.h"

namespace distrun {
namespace {

using internal::SharedTensor;
using testing::ChildProcess;
using ::testing::ContainsRegex;
using testing::error_of;
using ::testing::HasSubstr;
using testing::open_descriptors;

TEST(SharedTensorTest, ParentSeesWhatAForkedChildWrites) {
  const at::Tensor tensor = share_memory_(at::zeros({4}));
  ChildProcess child([&](int) {
    tensor.fill_(7);
    return true;
  });
  ASSERT_TRUE(child.succeeded());
  EXPECT_TRUE(at::equal(tensor, at::full({4}, 7.0f)));
}

TEST(SharedTensorTest, SharingKeepsValuesAndMovesAllViews) {
  const at::Tensor tensor = at::arange(12, at::kInt).view({3, 4});
  const at::Tensor row = tensor[1];
  const at::Tensor same = share_memory_(tensor);
  EXPECT_TRUE(same.is_same(tensor));
  EXPECT_TRUE(is_shared(tensor));
  EXPECT_TRUE(is_shared(row));
  EXPECT_TRUE(at::equal(tensor.flatten(), at::arange(12, at::kInt)));
  row.fill_(-1);
  EXPECT_EQ(tensor.sum().item<int>(), 0 + 1 + 2 + 3 - 4 + 8 + 9 + 10 + 11);
}

TEST(SharedTensorTest, SharedTensorIsNotCopiedAgain) {
  const at::Tensor tensor = share_memory_(at::ones({3}));
  const void* data = tensor.data_ptr();
  const auto descriptors = open_descriptors();
  share_memory_(tensor[0]);
  EXPECT_EQ(SharedTensor(tensor.view({3, 1})).tensor().data_ptr(), data);
  EXPECT_EQ(open_descriptors(), descriptors);
}

TEST(SharedTensorTest, SharingCopiesMemoryOfFromBlobAndFreesIt) {
  float values[] = {1, 2, 3};
  bool is_freed = false;
  const at::Tensor tensor = at::from_blob(
      values, {3}, [&](void*) { is_freed = true; }, at::TensorOptions(at::kFloat));
  share_memory_(tensor);
  EXPECT_TRUE(is_freed);
  tensor.fill_(9);
  EXPECT_EQ(values[0], 1);
}

TEST(SharedTensorTest, SharingALazyCloneCopiesIt) {
  const at::Tensor original = at::ones({3});
  const at::Tensor lazy = at::_lazy_clone(original);
  share_memory_(lazy);
  lazy.fill_(5);
  EXPECT_TRUE(at::equal(original, at::ones({3})));
  EXPECT_TRUE(at::equal(lazy, at::full({3}, 5.0f)));
}

TEST(SharedTensorTest, SharesEmptyTensors) {
  const at::Tensor empty = share_memory_(at::empty({0, 5}));
  EXPECT_TRUE(is_shared(empty));
  EXPECT_EQ(empty.storage().nbytes(), 0u);
  EXPECT_FALSE(is_shared(at::empty({0})));
  EXPECT_FALSE(is_shared(at::Tensor()));
}

TEST(SharedTensorTest, SharedStorageCannotBeResized) {
  const at::Tensor tensor = share_memory_(at::ones({4}));
  EXPECT_THAT(error_of<c10::Error>([&] { tensor.resize_({1000}); }), HasSubstr("not resizable"));
  EXPECT_THAT(error_of<c10::Error>([&] { share_memory_(at::empty({0})).resize_({1}); }),
              HasSubstr("not resizable"));
  tensor.resize_({2, 2});
  tensor.resize_({3});
  EXPECT_TRUE(at::equal(tensor, at::ones({3})));
}

TEST(SharedTensorTest, RefusesTensorsThatCannotBeShared) {
  const auto refused = [](const at::Tensor& tensor) {
    return error_of<c10::NotImplementedError>([&] { share_memory_(tensor); });
  };
  const auto text_of_kind = [](const std::string& kind) {
    return "share a tensor: it is " + kind +
           ", and only dense tensors can be shared: share the tensors it consists of";
  };
  EXPECT_EQ(refused(at::ones({3}).to_sparse()), text_of_kind("Sparse"));
  EXPECT_EQ(refused(at::ones({3, 3}).to_sparse_csr()), text_of_kind("SparseCsr"));
  EXPECT_EQ(refused(at::_nested_tensor_from_tensor_list({at::ones({2}), at::ones({3})})),
            text_of_kind("nested"));
  EXPECT_EQ(refused(at::quantize_per_tensor(at::ones({3}), 0.1, 0, at::kQInt8)),
            "share a tensor: it is quantized: share its int_repr()");
  EXPECT_EQ(refused(at::_efficientzerotensor({3})),
            "share a tensor: it does not own memory: share its clone()");
  EXPECT_EQ(error_of<c10::ValueError>([] { share_memory_(at::Tensor()); }),
            "share a tensor: it is undefined");
  EXPECT_EQ(error_of<c10::ValueError>([] { share_memory_(at::empty({3}, at::Device(at::kMeta))); }),
            "share a tensor: on the meta device it has no memory");
}

TEST(SharedTensorTest, RefusesATensorThatMapsAFile) {
  char path[] = "/tmp/distrun_shared_tensor_XXXXXX";
  const UniqueFd file(::mkstemp(path));
  ASSERT_EQ(::ftruncate(file.get(), 64), 0);
  const at::Tensor tensor = at::from_file(path, true, 16, at::TensorOptions(at::kFloat));
  ::unlink(path);
  EXPECT_EQ(error_of<c10::NotImplementedError>([&] { share_memory_(tensor); }),
            "share a tensor: its storage maps a file: share its clone()");
  EXPECT_FALSE(is_shared(tensor));
}

TEST(SharedTensorTest, HandsOverOnlyLeaves) {
  const at::Tensor leaf = at::ones({3}).set_requires_grad(true);
  const at::Tensor result = leaf.mul(2);
  EXPECT_EQ(error_of<c10::ValueError>([&] { SharedTensor{result}; }),
            "share a tensor: it is the result of a computation with gradients, which stays in this "
            "process: share its detach()");
  EXPECT_FALSE(is_shared(result));
  EXPECT_TRUE(SharedTensor(leaf).tensor().requires_grad());
  share_memory_(result);
  EXPECT_TRUE(is_shared(result));
  result.sum().backward();
  EXPECT_TRUE(at::equal(leaf.grad(), at::full({3}, 2.0f)));
}

TEST(SharedTensorTest, LeavesNoDescriptorBehind) {
  const auto before = open_descriptors();
  for (int i = 0; i < 1000; ++i) share_memory_(at::ones({2}));
  EXPECT_EQ(open_descriptors(), before);
}

TEST(SharedTensorTest, UsesNoFileInDevShm) {
  const auto before = testing::files_in("/dev/shm");
  std::vector<at::Tensor> tensors;
  for (int i = 0; i < 20; ++i) tensors.push_back(share_memory_(at::ones({2})));
  EXPECT_EQ(testing::files_in("/dev/shm"), before);
}

TEST(SharedTensorTest, ReportsThatMemoryIsNotEnough) {
  EXPECT_THAT(error_of<c10::Error>([] { internal::make_shared_memory(std::size_t{1} << 46); }),
              ContainsRegex("^share 70368744177664 bytes: not enough memory, only [0-9]+ bytes are "
                            "left$"));
}

TEST(SharedTensorTest, LimitsAreErrorsNotSignals) {
  ChildProcess child([](int) {
    const at::Tensor tensor = at::ones({1000});
    rlimit limit{100, RLIM_INFINITY};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    EXPECT_THAT(error_of<c10::Error>([&] { share_memory_(tensor); }),
                ContainsRegex("^share 4000 bytes: `ulimit -f` allows no more than 100 bytes$"));
    limit = {RLIM_INFINITY, RLIM_INFINITY};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    limit = {3, 1000};
    ::setrlimit(RLIMIT_NOFILE, &limit);
    EXPECT_THAT(error_of<c10::Error>([&] { share_memory_(tensor); }),
                ContainsRegex("^share 4000 bytes: memfd_create: .*: each shared object needs a "
                              "descriptor: raise `ulimit -n`$"));
    EXPECT_FALSE(is_shared(tensor));
    EXPECT_TRUE(at::equal(tensor, at::ones({1000})));
    return !::testing::Test::HasFailure();
  });
  EXPECT_TRUE(child.succeeded());
}

}  // namespace
}  // namespace distrun

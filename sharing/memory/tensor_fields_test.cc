#include <chrono>
#include <random>

#include <ATen/ops/arange.h>
#include <ATen/ops/complex.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/imag.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <c10/core/Allocator.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include "sharing/memory/test/child_process.h"

namespace distrun {
namespace {

using nlohmann::json;
using testing::ChildProcess;
using ::testing::ContainsRegex;
using testing::error_of;
using testing::open_descriptors;
using testing::shared;
using ::testing::StartsWith;

std::vector<UniqueFd> duplicates(const std::vector<int>& descriptors) {
  std::vector<UniqueFd> copies;
  for (const int fd : descriptors) copies.emplace_back(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  return copies;
}

struct Message {
  json fields;
  internal::MessageDescriptors descriptors;
  std::vector<internal::SharedTensor> tensors;
};

Message handed_over(const std::vector<at::Tensor>& tensors) {
  Message message;
  message.tensors = shared(tensors);
  message.fields = internal::hand_over(message.tensors, message.descriptors);
  return message;
}

std::vector<at::Tensor> taken_over(const json& fields, const std::vector<int>& descriptors) {
  auto received = duplicates(descriptors);
  return internal::taken_over(fields, received);
}

at::Tensor through(const at::Tensor& tensor) {
  const Message message = handed_over({tensor});
  return taken_over(json::parse(message.fields.dump()), message.descriptors.all).at(0);
}

void expect_same(const at::Tensor& sent, const at::Tensor& received) {
  EXPECT_EQ(received.scalar_type(), sent.scalar_type());
  EXPECT_EQ(received.sizes(), sent.sizes());
  EXPECT_EQ(received.strides(), sent.strides());
  EXPECT_EQ(received.storage_offset(), sent.storage_offset());
  EXPECT_EQ(received.requires_grad(), sent.requires_grad());
  EXPECT_EQ(received.is_conj(), sent.is_conj());
  EXPECT_EQ(received.is_neg(), sent.is_neg());
  EXPECT_EQ(received.storage().nbytes(), sent.storage().nbytes());
  EXPECT_NE(received.storage().data(), sent.storage().data());
  EXPECT_EQ(std::memcmp(received.storage().data(), sent.storage().data(), sent.storage().nbytes()),
            0);
}

TEST(TensorFieldsTest, CarriesEveryDtype) {
  for (int i = 0; i < static_cast<int>(at::ScalarType::Undefined); ++i) {
    const auto type = static_cast<at::ScalarType>(i);
    if (c10::isQIntType(type)) continue;
    SCOPED_TRACE(type);
    const at::Tensor tensor = at::empty({5}, type);
    for (std::size_t byte = 0; byte < tensor.storage().nbytes(); ++byte) {
      static_cast<char*>(tensor.storage().mutable_data())[byte] = static_cast<char>(byte % 2);
    }
    expect_same(tensor, through(tensor));
  }
}

TEST(TensorFieldsTest, CarriesEveryShape) {
  const at::Tensor base = at::arange(24, at::kFloat);
  for (const at::Tensor& tensor :
       {base, base.view({2, 3, 4}), base.view({4, 6}).t(), base.view({2, 3, 4}).permute({2, 0, 1}),
        base.slice(0, 3, 20, 4), base[5], base.slice(0, 7, 7), base.view({4, 6}).narrow(1, 2, 3),
        at::ones({1}).expand({1000, 1000}), base.view({24, 1}).expand({24, 5}),
        base.as_strided({3, 3}, {1, 1}, 4), at::full({}, 3.0f), at::empty({0}),
        at::empty({3, 0, 2}), base.unfold(0, 4, 1)}) {
    SCOPED_TRACE(tensor.sizes());
    expect_same(tensor, through(tensor));
  }
}

TEST(TensorFieldsTest, CarriesConjugateAndNegativeViews) {
  const at::Tensor complex = at::complex(at::ones({3}), at::arange(3, at::kFloat));
  const at::Tensor conjugate = complex.conj();
  ASSERT_TRUE(conjugate.is_conj());
  expect_same(conjugate, through(conjugate));
  EXPECT_TRUE(at::equal(through(conjugate), conjugate));
  const at::Tensor negative = at::imag(conjugate);
  ASSERT_TRUE(negative.is_neg());
  expect_same(negative, through(negative));
  EXPECT_TRUE(at::equal(through(negative), negative));
}

TEST(TensorFieldsTest, LeafStaysALeaf) {
  const at::Tensor parameter = at::ones({3}).set_requires_grad(true);
  const at::Tensor received = through(parameter);
  EXPECT_TRUE(received.requires_grad());
  EXPECT_TRUE(received.is_leaf());
  received.mul(3).sum().backward();
  EXPECT_TRUE(at::equal(received.grad(), at::full({3}, 3.0f)));
  EXPECT_FALSE(parameter.grad().defined());
}

TEST(TensorFieldsTest, BothSidesSeeEachOthersWrites) {
  const at::Tensor tensor = at::zeros({2, 3});
  const at::Tensor received = through(tensor.t());
  received[2][1].fill_(4);
  EXPECT_EQ(tensor[1][2].item<float>(), 4);
  tensor.fill_(5);
  EXPECT_EQ(received.sum().item<float>(), 30);
}

TEST(TensorFieldsTest, ViewsOfOneStorageShareItAgain) {
  const at::Tensor base = at::zeros({4, 4});
  const at::Tensor alone = at::zeros({2});
  const Message message = handed_over({base, alone, base[1], base.t()});
  EXPECT_EQ(message.descriptors.all.size(), 2u);
  const auto received = taken_over(message.fields, message.descriptors.all);
  ASSERT_EQ(received.size(), 4u);
  EXPECT_TRUE(received[2].is_alias_of(received[0]));
  EXPECT_TRUE(received[3].is_alias_of(received[0]));
  EXPECT_FALSE(received[1].is_alias_of(received[0]));
  received[3][0][1].fill_(1);
  EXPECT_EQ(received[2][0].item<float>(), 1);
}

TEST(TensorFieldsTest, HandsOnReceivedTensorsWithoutACopy) {
  const at::Tensor tensor = at::zeros({3});
  const at::Tensor second = through(through(tensor));
  second.fill_(1);
  EXPECT_EQ(tensor.sum().item<float>(), 3);
}

TEST(TensorFieldsTest, MessagesSurviveCbor) {
  const Message message = handed_over({at::ones({3})});
  const auto bytes = json::to_cbor(message.fields);
  EXPECT_TRUE(
      at::equal(taken_over(json::from_cbor(bytes), message.descriptors.all).at(0), at::ones({3})));
}

TEST(TensorFieldsTest, MemoryOutlivesItsCreator) {
  const auto before = open_descriptors();
  {
    ChildProcess child([](int socket) {
      testing::send_to(socket, shared({at::full({1000}, 3.0f)}));
      return true;
    });
    const at::Tensor received = testing::receive_tensors(child.socket()).at(0);
    ASSERT_TRUE(child.succeeded());
    EXPECT_TRUE(at::equal(received, at::full({1000}, 3.0f)));
    received.fill_(1);
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST(TensorFieldsTest, MemoryOutlivesAWriterThatIsKilled) {
  ChildProcess child([](int socket) -> bool {
    const at::Tensor tensor = at::zeros({1000});
    testing::send_to(socket, shared({tensor}));
    for (;;) tensor.add_(1);
  });
  const at::Tensor received = testing::receive_tensors(child.socket()).at(0);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (received[999].item<float>() < 3) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
  }
  child.kill();
  EXPECT_GE(received.min().item<float>(), 2);
}

TEST(TensorFieldsTest, RefusesMalformedFields) {
  const Message message = handed_over({at::ones({2, 3}), at::ones({2}, at::kInt)});
  // Each pair is a place and a new value.
  const std::vector<std::pair<const char*, json>> changes = {
      {"/storages", 3},
      {"/storages/0/0", 2},
      {"/storages/0/0", -1},
      {"/storages/0/0", "x"},
      {"/storages/0/1", 25},
      {"/storages/0/1", -1},
      {"/storages/0/1", 24.5},
      {"/storages/0/1", 1e300},
      {"/storages/0/0", 0.5},
      {"/storages/1/0", 0},  // This descriptor is taken.
      {"/tensors/0/0", 2},
      {"/tensors/0/0", -1},
      {"/tensors/0/1", 1000},
      {"/tensors/0/1", static_cast<int>(at::kQInt8)},
      {"/tensors/0/1", static_cast<int>(at::kDouble)},
      {"/tensors/0/2", 1},
      {"/tensors/0/2", -1},
      {"/tensors/0/2", INT64_MAX},
      {"/tensors/0/2", 0.5},
      {"/tensors/0/2", 1e300},
      {"/tensors/0/2", std::uint64_t{1} << 63},
      {"/tensors/0/3", 0.5},
      {"/tensors/0/3", 2},  // A float has no conjugate.
      {"/tensors/1/3", 1},  // An int has no gradient.
      {"/tensors/0/4/0", 3},
      {"/tensors/0/4/0", -1},
      {"/tensors/0/4", {INT64_MAX, INT64_MAX}},
      {"/tensors/0/4", {{"size", 2}}},
      {"/tensors/0/4/0", 1.5},
      {"/tensors/0/4/0", 1e300},
      {"/tensors/0/4/0", std::uint64_t{1} << 63},
      {"/tensors/0/5/0", 4},
      {"/tensors/0/5/0", -3},
      {"/tensors/0/5/0", INT64_MAX},
      {"/tensors/0/5/0", 1e300},
      {"/tensors/0/5", {3}},
      {"/tensors/0", {0}},
  };
  const auto before = open_descriptors();
  for (const auto& [where, what] : changes) {
    SCOPED_TRACE(where + (" = " + what.dump()));
    json fields = message.fields;
    fields[json::json_pointer(where)] = what;
    EXPECT_THROW(taken_over(fields, message.descriptors.all), c10::ValueError);
  }
  EXPECT_THROW(taken_over(json::object(), message.descriptors.all), c10::ValueError);
  EXPECT_THROW(taken_over(message.fields, {}), c10::ValueError);
  EXPECT_EQ(open_descriptors(), before);
}

TEST(TensorFieldsTest, SaysWhatIsMalformed) {
  Message message = handed_over({at::ones({2, 3})});
  const auto error = [&](const char* where, const json& what) {
    json fields = message.fields;
    fields[json::json_pointer(where)] = what;
    return error_of<c10::ValueError>([&] { taken_over(fields, message.descriptors.all); });
  };
  const std::string context = " (while tensors were taken over from another process)";
  EXPECT_EQ(error("/tensors/0/2", 0.5),
            "a malformed message: 0.5 is not a whole number within its bounds" + context);
  EXPECT_EQ(error("/tensors/0/4", {{"size", 2}}), "object instead of a list of numbers" + context);
  EXPECT_EQ(error("/tensors/0/0", 2), "number 2 of 1" + context);
  EXPECT_EQ(error("/tensors/0/3", 2), "bits 2 of Float" + context);
  EXPECT_EQ(error("/tensors/0/4/0", 3),
            "sizes [3, 3], strides [3, 1], offset 0 of Float do not fit into 24 bytes" + context);
  EXPECT_THAT(error("/storages", 3), StartsWith("take tensors over: the message is malformed: "));
  const at::Tensor& tensor = message.tensors[0].tensor();
  tensor.storage().unsafeGetStorageImpl()->set_data_ptr_noswap(
      c10::GetAllocator(c10::kCPU)->allocate(tensor.nbytes()));
  internal::MessageDescriptors descriptors;
  EXPECT_EQ(error_of<c10::ValueError>([&] { internal::hand_over(message.tensors, descriptors); }),
            "hand a tensor over: its memory was replaced after it was shared");
}

// One computation overflows in each case. If it wrapped around, the tensor would fit in the memory.
TEST(TensorFieldsTest, RefusesBoundsThatOverflow) {
  const Message message = handed_over({at::ones({2, 3})});
  struct Case {
    json sizes, strides;
    std::int64_t offset = 0;
  };
  constexpr std::int64_t k2To32 = std::int64_t{1} << 32, k2To62 = std::int64_t{1} << 62;
  const std::vector<Case> cases = {
      {.sizes = {k2To32, k2To32}, .strides = {0, 0}},             // The number of elements.
      {.sizes = {k2To32 + 1, 1}, .strides = {k2To32, 0}},         // The extent of a dimension.
      {.sizes = {3, 3}, .strides = {k2To62, k2To62}},             // The sum of the extents.
      {.sizes = {1, 1}, .strides = {0, 0}, .offset = INT64_MAX},  // The end of the first element.
      {.sizes = {1, 1}, .strides = {0, 0}, .offset = k2To62},     // The same in bytes.
  };
  for (const Case& bad : cases) {
    json fields = message.fields;
    json& tensor = fields["tensors"][0];
    tensor[4] = bad.sizes;
    tensor[5] = bad.strides;
    tensor[2] = bad.offset;
    SCOPED_TRACE(tensor.dump());
    EXPECT_THROW(taken_over(fields, message.descriptors.all), c10::ValueError);
  }
}

TEST(TensorFieldsTest, RandomFieldsAreRefusedOrStayWithinTheMemory) {
  const Message message = handed_over({at::ones({2, 3}), at::ones({4}).slice(0, 1, 3)});
  std::mt19937 random(1);
  int taken = 0;
  for (int round = 0; round < 3000; ++round) {
    json flat = message.fields.flatten();
    const int changes = 1 + static_cast<int>(random() % 3);
    for (int i = 0; i < changes; ++i) {
      auto field = flat.begin();
      std::advance(field, random() % flat.size());
      const std::int64_t shift = random() % 64;
      *field = random() % 4 == 0 ? static_cast<std::int64_t>(random()) << shift
                                 : static_cast<std::int64_t>(random() % 9) - 1;
    }
    try {
      for (const auto& tensor : taken_over(flat.unflatten(), message.descriptors.all)) {
        if (tensor.numel() < 1000) tensor.clone();
      }
      ++taken;
    } catch (const c10::ValueError&) {
    }
  }
  EXPECT_GT(taken, 100);
  EXPECT_LT(taken, 2900);
}

TEST(TensorFieldsTest, RefusesWrongDescriptors) {
  const Message message = handed_over({at::ones({1000})});
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const UniqueFd read(ends[0]), write(ends[1]);
  const UniqueFd null(::open("/dev/null", O_RDWR));
  const UniqueFd not_sealed(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(not_sealed.get(), 4000), 0);
  const UniqueFd too_short(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(too_short.get(), 3999), 0);
  ASSERT_EQ(::fcntl(too_short.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
  const auto error = [&](const UniqueFd& wrong) {
    return error_of<c10::ValueError>([&] { taken_over(message.fields, {wrong.get()}); });
  };
  for (const UniqueFd* wrong : {&read, &null, &not_sealed}) {
    EXPECT_THAT(error(*wrong),
                ContainsRegex("^map 4000 bytes of a shared tensor: descriptor [0-9]+ is not of "
                              "memory with a fixed size \\(while"));
  }
  EXPECT_THAT(error(too_short),
              StartsWith("map 4000 bytes of a shared tensor: its memory has only 3999 bytes ("));
}

}  // namespace
}  // namespace distrun

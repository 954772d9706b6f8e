#include "backends/fake/fake_work.h"

#include <utility>

namespace distrun::internal {

namespace {

using TensorLists = FakeWork::TensorLists;

// A future needs no devices for tensors on the CPU.
std::vector<c10::Device> devices_of(const TensorLists& lists) {
  std::vector<c10::Device> devices;
  for (const auto& list : lists) {
    for (const at::Tensor& one : list) {
      if (!one.is_cpu()) devices.push_back(one.device());
    }
  }
  return devices;
}

c10::intrusive_ptr<c10::ivalue::Future> completed_with(const TensorLists& lists) {
  const c10::TypePtr list = c10::ListType::create(c10::TensorType::get());
  const bool has_several = lists.size() > 1;
  auto future = c10::make_intrusive<c10::ivalue::Future>(
      has_several ? c10::ListType::create(list) : list, devices_of(lists));
  if (has_several) {
    future->markCompleted(c10::IValue(lists));
  } else {
    future->markCompleted(c10::IValue(lists.empty() ? std::vector<at::Tensor>() : lists.front()));
  }
  return future;
}

}  // namespace

FakeWork::FakeWork(int rank, c10d::OpType type, std::uint64_t number, int source,
                   TensorLists outputs)
    : Work(rank, type),
      number_(number),
      source_(source),
      outputs_(std::move(outputs)),
      future_(completed_with(outputs_)) {
  finish();
}

int FakeWork::sourceRank() const { return source_ < 0 ? Work::sourceRank() : source_; }

std::vector<at::Tensor> FakeWork::result() {
  std::vector<at::Tensor> all;
  for (const auto& list : outputs_) all.insert(all.end(), list.begin(), list.end());
  return all;
}

bool FakeWork::wait(std::chrono::milliseconds /*timeout*/) {
  synchronize();
  return true;
}

void FakeWork::synchronize() { future_->wait(); }

}  // namespace distrun::internal

#include "distrun/tensor_queue.h"

#include <algorithm>

#include <c10/util/Exception.h>

#include "common/deadline.h"
#include "sharing/queue/queue_holder.h"
#include "sharing/queue/queue_item.h"

namespace distrun {

namespace {

using Clock = std::chrono::steady_clock;
using internal::Ability;

template <class Thrown, class... Parts>
[[noreturn]] void throw_queue_error(const Parts&... parts) {
  throw Thrown({__func__, __FILE__, static_cast<std::uint32_t>(__LINE__)}, c10::str(parts...));
}

double seconds(TensorQueue::Timeout timeout) {
  return std::chrono::duration<double>(timeout).count();
}

}  // namespace

TensorQueue::TensorQueue(std::size_t capacity, std::string name)
    : holder_(internal::QueueHolder::make(capacity, std::move(name))) {}

TensorQueue::TensorQueue(std::shared_ptr<const internal::QueueHolder> holder)
    : holder_(std::move(holder)) {}

const internal::QueueHolder& TensorQueue::holder() const {
  TORCH_CHECK_VALUE(holder_, "this TensorQueue has been moved from, and holds no queue");
  return *holder_;
}

void TensorQueue::put(const Item& item, Timeout timeout) const {
  TORCH_CHECK_VALUE(holder().abilities().can_put, "put into ", holder_->description(),
                    ": this is its reader()");
  const auto deadline = deadline_after(timeout);
  const internal::PackedItem packed = internal::pack(item);
  int tries = 0;
  for (;;) {
    if (holder_->is_without_others(Ability::kGet)) {
      throw_queue_error<QueueEnded>("put into ", holder_->description(),
                                    ": the queue has ended: no process that can get is left");
    }
    const auto outcome = holder_->try_put(packed.bytes, packed.descriptors.all);
    if (outcome == internal::PutOutcome::kPut) return;
    const bool is_full = outcome == internal::PutOutcome::kFull;
    if (Clock::now() >= deadline) {
      if (!is_full) {
        throw_queue_error<QueueTimeout>("put into ", holder_->description(), ": after ",
                                        seconds(timeout),
                                        " s another process is still putting: is it stopped?");
      }
      throw_queue_error<QueueTimeout>("put into ", holder_->description(),
                                      ": it has been full for ", seconds(timeout), " s, with ",
                                      size(), " of ", capacity(), " items: no process gets items");
    }
    tries = is_full ? 0 : tries + 1;
    is_full ? holder_->wait_for_place(deadline) : holder_->wait_for_putter(deadline, tries);
  }
}

TensorQueue::Item TensorQueue::get(Timeout timeout) const {
  TORCH_CHECK_VALUE(holder().abilities().can_get, "get from ", holder_->description(),
                    ": this is its writer()");
  const auto deadline = deadline_after(timeout);
  for (;;) {
    // Checked first: a writer that has ended has put all its items.
    const bool is_last = holder_->is_without_others(Ability::kPut);
    if (auto packet = holder_->try_get()) return internal::unpack(std::move(*packet));
    if (is_last) {
      throw_queue_error<QueueEnded>("get from ", holder_->description(),
                                    ": the queue has ended: no process that can put is left");
    }
    if (Clock::now() >= deadline) {
      throw_queue_error<QueueTimeout>("get from ", holder_->description(),
                                      ": it has been empty for ", seconds(timeout),
                                      " s: no process puts items");
    }
    holder_->wait_for_item(deadline);
  }
}

std::size_t TensorQueue::size() const { return holder().size(); }
std::size_t TensorQueue::capacity() const { return holder().parts().capacity; }
const std::string& TensorQueue::name() const { return holder().parts().name; }

TensorQueue TensorQueue::reader() const {
  TORCH_CHECK_VALUE(holder().abilities().can_get, "make a reader of ", holder_->description(),
                    ": this is its writer()");
  return TensorQueue(holder_->another({.can_get = true}));
}

TensorQueue TensorQueue::writer() const {
  TORCH_CHECK_VALUE(holder().abilities().can_put, "make a writer of ", holder_->description(),
                    ": this is its reader()");
  return TensorQueue(holder_->another({.can_put = true}));
}

}  // namespace distrun

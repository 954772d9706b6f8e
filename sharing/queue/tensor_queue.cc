#include "distrun/tensor_queue.h"

#include <algorithm>

#include <c10/util/Exception.h>
#include <nlohmann/json.hpp>

#include "sharing/deadline.h"
#include "sharing/memory/hand_over.h"
#include "sharing/queue/queue_holder.h"
#include "sharing/queue/queue_item.h"

namespace distrun {

namespace {

using Clock = std::chrono::steady_clock;
using internal::Ability;
using internal::deadline_after;

template <class Thrown, class... Parts>
[[noreturn]] void fail(const Parts&... parts) {
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
      fail<QueueEnded>("put into ", holder_->description(),
                       ": it has ended: no process that could get is left");
    }
    const auto outcome = holder_->try_put(packed.bytes, packed.descriptors.all);
    if (outcome == internal::PutOutcome::kPut) return;
    const bool is_full = outcome == internal::PutOutcome::kFull;
    if (Clock::now() >= deadline) {
      if (!is_full) {
        fail<QueueTimeout>("put into ", holder_->description(), ": after ", seconds(timeout),
                           " s somebody is putting: is a process stopped in the middle?");
      }
      fail<QueueTimeout>("put into ", holder_->description(), ": it has been full for ",
                         seconds(timeout), " s, with ", size(), " items of ", capacity(),
                         ": nobody gets any");
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
    // Asked first: who is gone now has put what it could.
    const bool is_last = holder_->is_without_others(Ability::kPut);
    if (auto packet = holder_->try_get()) return internal::unpack(std::move(*packet));
    if (is_last) {
      fail<QueueEnded>("get from ", holder_->description(),
                       ": it has ended: no process that could put is left");
    }
    if (Clock::now() >= deadline) {
      fail<QueueTimeout>("get from ", holder_->description(), ": it has been empty for ",
                         seconds(timeout), " s: nobody puts anything");
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

namespace internal {

nlohmann::json hand_over(const TensorQueue& queue, Descriptors& descriptors) {
  const QueueHolder::Parts& parts = queue.holder().parts();
  Presence presence = queue.holder().presence_for_another();
  const auto first = descriptors.all.size();
  for (const int fd :
       {parts.sender.get(), parts.receiver.get(), parts.places.get(), presence.descriptor()}) {
    descriptors.all.push_back(fd);
  }
  const Presence::Places places = presence.places();
  descriptors.owned.push_back(presence.release());
  return {{"name", parts.name},
          {"capacity", parts.capacity},
          {"descriptors", first},
          {"put", places.put},
          {"get", places.get}};
}

TensorQueue taken_over_queue(const nlohmann::json& fields, std::vector<UniqueFd>& descriptors) {
  try {
    const auto first = fields.at("descriptors").get<std::size_t>();
    TORCH_CHECK_VALUE(first < descriptors.size() && descriptors.size() - first >= 4,
                      "take a queue over: ", descriptors.size(), " descriptors are too few");
    const Presence::Places places{.put = fields.at("put").get<int>(),
                                  .get = fields.at("get").get<int>()};
    return TensorQueue(QueueHolder::taken_over(
        {.name = fields.at("name").get<std::string>(),
         .capacity = fields.at("capacity").get<std::size_t>(),
         .sender = std::move(descriptors[first]),
         .receiver = std::move(descriptors[first + 1]),
         .places = std::move(descriptors[first + 2]),
         .presence = Presence::taken_over(std::move(descriptors[first + 3]), places)}));
  } catch (const nlohmann::json::exception& error) {
    TORCH_CHECK_VALUE(false, "take a queue over: the message is malformed: ", error.what());
  }
}

}  // namespace internal

}  // namespace distrun

// TensorQueue carries tensors between processes, without a copy: a bounded queue into which any
// number of processes may put, and from which any number may get.
//
//     TensorQueue queue(8, "results");                           // At most 8 items.
//     auto processes =                                           // Each has the queue.
//         spawn(kWorker, 2, {.arguments = {.queues = {queue.writer()}}});
//     TensorQueue::Item item = queue.get();                      // item.tensors, item.text
//
//     queue.put({{inputs, targets}, "batch 3"});                 // In the other process.
//
// An item that is put is in the queue as a whole or not at all, in the order of puts; one that a
// process has got is its own.  A process that is killed in the middle leaves the queue as it was
// before, or after.
//
// The end.  A holder is a queue and its copies in one process, or a queue that is on its way to
// one. When no other holder is left that could put, get() takes what is still there, and then
// throws QueueEnded, at once; so does put() when no other holder is left that could get.  A queue
// that only its maker has held has not ended: its threads may use it.  Each holder can do both
// unless it was given an end: with reader() and writer() a queue ends where the whole one would
// have to take another reader for somebody who may put.
//
// Waiting is bounded: QueueTimeout after `timeout`, 5 minutes unless told otherwise; zero tries
// once.  A process that is stopped in the middle of a put() holds up other puts until they time
// out.
//
// Tensors are shared as by share_memory_(): put() moves their storage into shared memory if it is
// not there yet, and the sender's tensor and the receiver's have the same memory from then on. What
// cannot be shared is refused as there, and nothing is put.
//
// Descriptors: a queue holds four, each storage on its way and each one received another
// one; the kernel allows a user as many under way as `ulimit -n` says.
//
// Threads: any, at the same time.  fork(): the child is a holder of its own.  A child that another
// thread forks while this one hands a queue over (spawn()) has that message too: the queue does not
// end before the child has ended, or executed a program.
//
// As torch.multiprocessing.Queue (torch/multiprocessing/queue.py), where get() hangs when the
// others have died.
#pragma once

#include <chrono>
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>

namespace distrun {

// Nobody is left at the other side of a queue.
class QueueEnded : public c10::DistError {
  using DistError::DistError;
};

// A queue was empty, or full, for too long.
class QueueTimeout : public c10::DistError {
  using DistError::DistError;
};

namespace internal {
class QueueHolder;
struct TensorQueueAccess;
}  // namespace internal

class TensorQueue {
 public:
  using Timeout = std::chrono::milliseconds;
  static constexpr Timeout kTimeout = std::chrono::minutes(5);

  struct Item {
    Item() = default;
    Item(at::Tensor tensor) : tensors{std::move(tensor)} {}
    Item(std::initializer_list<at::Tensor> list) : tensors(list) {}
    Item(std::vector<at::Tensor> list, std::string bytes = "")
        : tensors(std::move(list)), text(std::move(bytes)) {}

    std::vector<at::Tensor> tensors;
    std::string text;  // Any bytes.
  };

  // 1 to 256 items; more where the kernel lets sockets have larger buffers (net.core.wmem_max),
  // else c10::ValueError.  The name is for messages.
  explicit TensorQueue(std::size_t capacity, std::string name = "");

  // Waits for a place.
  void put(const Item& item, Timeout timeout = kTimeout) const;

  // Waits for an item.
  Item get(Timeout timeout = kTimeout) const;

  // The items that are in it now.
  std::size_t size() const;
  std::size_t capacity() const;
  const std::string& name() const;

  // A holder of its own that can only get, or only put; the other call is a c10::ValueError.
  TensorQueue reader() const;
  TensorQueue writer() const;

 private:
  friend struct internal::TensorQueueAccess;
  explicit TensorQueue(std::shared_ptr<const internal::QueueHolder> holder);
  const internal::QueueHolder& holder() const;

  std::shared_ptr<const internal::QueueHolder> holder_;
};

}  // namespace distrun

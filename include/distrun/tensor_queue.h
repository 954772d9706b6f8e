// TensorQueue carries tensors between processes without copying them: a bounded queue with any
// number of senders and receivers.
//
//     TensorQueue queue(8, "results");                           // At most 8 items.
//     auto processes =                                           // Each has the queue.
//         spawn(kWorker, 2, {.arguments = {.queues = {queue.writer()}}});
//     TensorQueue::Item item = queue.get();                      // item.tensors, item.text
//
//     queue.put({{inputs, targets}, "batch 3"});                 // In the other process.
//
// Items arrive in the order of puts, each as a whole and at one receiver.  If a process is killed,
// the queue is as before its call or as after it.  Tensors are shared as by share_memory_(): put()
// moves their storage into shared memory, and sender and receiver then use the same memory.
//
// A holder is a queue and its copies in one process, or a queue in transit to one.  When no other
// holder is left that could put, get() returns the remaining items and then throws QueueEnded;
// put() throws it when no other holder is left that could get.  A queue that only its creator has
// held does not end: its threads may use it.  A holder counts for both sides unless it has only an
// end: give processes reader() or writer(), so that the queue ends when the last writer or reader
// exits.
//
// A fork is a holder too.  If another thread forks while a queue is handed over by spawn(), the
// queue lasts until that child ends or executes a program.
//
// Thread safety: any thread, at the same time.
// Cost: four descriptors per queue, and one per storage in transit or received.  The kernel limits
// a user's descriptors in transit to `ulimit -n`.
// PyTorch source: torch/multiprocessing/queue.py, where get() hangs if the other processes have
// died.
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

// No process is left at the other side of the queue.
class QueueEnded : public c10::DistError {
  using DistError::DistError;
};

// The queue was empty, or full, for too long.
class QueueTimeout : public c10::DistError {
  using DistError::DistError;
};

namespace internal {
class QueueHolder;
struct TensorQueueAccess;
}  // namespace internal

class TensorQueue {
 public:
  // Zero tries once.
  using Timeout = std::chrono::milliseconds;
  // The default timeout.
  static constexpr Timeout kTimeout = std::chrono::minutes(5);

  // One message.
  struct Item {
    Item() = default;
    // Converts from one tensor, or from a list of tensors with a text.
    Item(at::Tensor tensor) : tensors{std::move(tensor)} {}
    Item(std::initializer_list<at::Tensor> list) : tensors(list) {}
    Item(std::vector<at::Tensor> list, std::string bytes = "")
        : tensors(std::move(list)), text(std::move(bytes)) {}

    std::vector<at::Tensor> tensors;  // Shared, not copied.
    std::string text;                 // Any bytes, which are copied.
  };

  // Creates a queue for `capacity` items.  The name is for messages.
  //
  // Throws: c10::ValueError unless the capacity is 1 to 256, or more if the kernel allows larger
  // socket buffers (net.core.wmem_max).
  explicit TensorQueue(std::size_t capacity, std::string name = "");

  // Adds an item.
  //
  // Blocks: while the queue is full or another process is putting, at most `timeout`.  A process
  // that is stopped within put() blocks the others.
  // Throws: QueueTimeout, QueueEnded; c10::ValueError if this is a reader(), and as share_memory_()
  // if a tensor cannot be shared.  Nothing is added then.
  void put(const Item& item, Timeout timeout = kTimeout) const;

  // Takes the next item.
  //
  // Blocks: while the queue is empty, at most `timeout`.
  // Throws: QueueTimeout, QueueEnded; c10::ValueError if this is a writer().
  Item get(Timeout timeout = kTimeout) const;

  // Returns the number of items in the queue.
  std::size_t size() const;
  // Returns the most items that it holds.
  std::size_t capacity() const;
  // Returns its name.
  const std::string& name() const;

  // Returns another holder that can only get.
  //
  // Throws: c10::ValueError if this is a writer().
  TensorQueue reader() const;
  // Returns another holder that can only put.
  //
  // Throws: c10::ValueError if this is a reader().
  TensorQueue writer() const;

 private:
  friend struct internal::TensorQueueAccess;
  explicit TensorQueue(std::shared_ptr<const internal::QueueHolder> holder);
  const internal::QueueHolder& holder() const;

  std::shared_ptr<const internal::QueueHolder> holder_;
};

}  // namespace distrun

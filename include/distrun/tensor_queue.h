// TensorQueue carries tensors between processes: a bounded queue with any number of senders and
// receivers.
//
//     TensorQueue queue(8, "results");                           // At most 8 items.
//     ProcessContext processes = start_processes(
//         kWorker, 2, {.arguments = {.queues = {queue.writer()}}});
//     TensorQueue::Item item = queue.get();                      // item.tensors, item.text
//
//     arguments.queues.at(0).put({{inputs, targets}, "batch 3"});    // In a worker (spawn.h).
//
// Items arrive in the order of the put() calls.  Exactly one receiver gets each item.  If a process
// is killed during a call, the call has its complete effect or no effect.  put() moves the storage
// of the tensors into shared memory, as share_memory_() does, which copies a storage that is not
// shared yet.  Afterwards the sender and the receiver use the same memory.
//
// All copies of a queue in one process are one holder.  A queue that was sent to a process and not
// yet received is also a holder.  When no other holder can put items, get() returns the remaining
// items and then throws QueueEnded.  When no other holder can get items, put() throws QueueEnded.
// A queue that only its creator has held does not end, because the creator's threads may use it.  A
// reader() and a writer() are separate holders: a reader can only get items, and a writer can only
// put items.  Pass one of them to other processes, so that the queue ends when the last writer or
// the last reader exits.
//
// A forked process is a holder too.  If another thread forks while spawn() sends a queue, the queue
// does not end until the forked process exits or executes a program.
//
// Thread safety: any thread, at the same time.
// Cost: four file descriptors for each queue, and one for each storage in transit or received.  The
// kernel limits a user's descriptors in transit to `ulimit -n`.
// PyTorch source: torch/multiprocessing/queue.py.  In Python, get() hangs if the other processes
// have died.
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

// Thrown if no other process can use the other end of the queue.
class QueueEnded : public c10::DistError {
  using DistError::DistError;
};

// Thrown if the queue was empty or full, or another process was still putting, until the timeout.
class QueueTimeout : public c10::DistError {
  using DistError::DistError;
};

namespace internal {
class QueueHolder;
struct TensorQueueAccess;
}  // namespace internal

class TensorQueue {
 public:
  // With a timeout of zero, a call tries once and does not wait.
  using Timeout = std::chrono::milliseconds;
  // The default timeout.
  static constexpr Timeout kTimeout = std::chrono::minutes(5);

  // What one put() sends.
  struct Item {
    Item() = default;
    // Converts from one tensor, or from a list of tensors with a text.
    Item(at::Tensor tensor) : tensors{std::move(tensor)} {}
    Item(std::initializer_list<at::Tensor> list) : tensors(list) {}
    Item(std::vector<at::Tensor> list, std::string bytes = "")
        : tensors(std::move(list)), text(std::move(bytes)) {}

    std::vector<at::Tensor> tensors;  // put() moves them into shared memory.
    std::string text;                 // Any bytes, which are copied.
  };

  // Creates a queue for `capacity` items.  Error messages show the name.
  //
  // Throws: c10::ValueError if the capacity is 0 or too large.  The largest capacity depends on the
  // kernel setting net.core.wmem_max; with its default, 256 items are always possible.
  explicit TensorQueue(std::size_t capacity, std::string name = "");

  // Adds an item.
  //
  // Blocks: while the queue is full or another process is putting, at most `timeout`.  A process
  // that is suspended within put() (SIGSTOP, a debugger) blocks the put() of other processes.
  // Throws: QueueTimeout, QueueEnded; c10::ValueError if this is a reader(), and the exceptions of
  // share_memory_() if a tensor cannot be shared.  If put() throws, it adds nothing.
  void put(const Item& item, Timeout timeout = kTimeout) const;

  // Takes the next item.
  //
  // Blocks: while the queue is empty, at most `timeout`.
  // Throws: QueueTimeout, QueueEnded; c10::ValueError if this is a writer().
  Item get(Timeout timeout = kTimeout) const;

  // Returns the number of items in the queue.
  std::size_t size() const;
  // Returns the maximum number of items.
  std::size_t capacity() const;
  // Returns the queue's name.
  const std::string& name() const;

  // Returns a holder that can only get items.
  //
  // Throws: c10::ValueError if this is a writer().
  TensorQueue reader() const;
  // Returns a holder that can only put items.
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

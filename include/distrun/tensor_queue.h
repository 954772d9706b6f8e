// TensorQueue sends tensors from process to process.  It is a bounded queue with any number of
// senders and receivers.
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
// of the tensors into shared memory, as share_memory_() does.  Afterwards the sender and the
// receiver use the same memory.
//
// A process that has a queue is a holder of it.  All copies of a TensorQueue in one process are one
// holder.  A queue that was sent to a process and not yet received is also a holder.  reader() and
// writer() return separate holders: a reader can only get items, and a writer can only put items.
//
// If no other holder can put items, the queue has ended: get() returns the remaining items and then
// throws QueueEnded.  If no other holder can get items, the queue has also ended: put() throws
// QueueEnded.  A queue that only its creator has ever held does not end, because other threads of
// the creator may use it.  Pass a reader() or a writer() to other processes, so that the queue ends
// when the last reader or the last writer exits.
//
// A forked process is a holder too.  If another thread forks while spawn() sends a queue, the queue
// does not end until the forked process exits or executes another program.
//
// Thread safety: any number of threads at the same time.
// Cost: a queue needs four file descriptors in each process, and four more for each reader() and
// writer().  Each storage that is in transit or was received needs one file descriptor.  The kernel
// limits a user's descriptors in transit to `ulimit -n`.  A queue starts no thread.
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

// Thrown by get() if no other holder can put items, and by put() if no other holder can get items.
class QueueEnded : public c10::DistError {
  using DistError::DistError;
};

// Thrown at the timeout: by get() if the queue is empty, and by put() if the queue is full or
// another process is still putting.
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

  // The content of one put().
  struct Item {
    Item() = default;
    // Converts from one tensor, or from a list of tensors and a text.
    Item(at::Tensor tensor) : tensors{std::move(tensor)} {}
    Item(std::initializer_list<at::Tensor> list) : tensors(list) {}
    Item(std::vector<at::Tensor> list, std::string bytes = "")
        : tensors(std::move(list)), text(std::move(bytes)) {}

    std::vector<at::Tensor> tensors;  // put() moves them into shared memory.
    std::string text;                 // Any bytes.  put() and get() copy them.
  };

  // Creates a queue for `capacity` items.  Error messages show the name.
  //
  // Throws: c10::ValueError if the capacity is 0 or too large.  The largest capacity depends on the
  // kernel setting net.core.wmem_max.  With the kernel's default, 256 items are always possible.
  explicit TensorQueue(std::size_t capacity, std::string name = "");

  // Adds an item.
  //
  // Blocks: while the queue is full or another process is putting, at most `timeout`.  A process
  // that is suspended within put() (SIGSTOP, a debugger) blocks the put() of other processes.
  // Throws: QueueTimeout, QueueEnded; c10::ValueError if this is a reader(), and the exceptions of
  // share_memory_() if a tensor cannot be shared.  If put() throws, it adds nothing.
  // Cost: a copy of the text, and of each storage that is not shared yet.  The item is one packet
  // of 640 bytes in a socket.  An item that does not fit, because of a long text or many tensors,
  // also needs a memory file and one or two file descriptors until get() takes it.
  void put(const Item& item, Timeout timeout = kTimeout) const;

  // Takes the next item.
  //
  // Blocks: while the queue is empty, at most `timeout`.
  // Throws: QueueTimeout, QueueEnded; c10::ValueError if this is a writer().
  // Cost: a copy of the text.  The tensors are mapped and not copied.
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

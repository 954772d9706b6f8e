// TensorQueue is a bounded queue that sends tensors between processes.  It can have any number of
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
// A process uses a queue through a holder.  In one process, a TensorQueue and all its copies are
// one holder.  Sending a queue to another process creates a holder for that process.  reader() and
// writer() also return new holders.  A reader can get items but not put them, and a writer can put
// items but not get them.
//
// If no other holder can put items, get() returns the remaining items, and after that throws
// QueueEnded.  If no other holder can get items, put() throws QueueEnded.  A queue that has never
// had a second holder does not end, because other threads of its creator may use it.  A queue that
// was sent and not yet received does not end either.
//
// Pass a reader() or a writer() to other processes.  After the last process with a writer() exits,
// get() in your process throws QueueEnded, once the remaining items are read.  After the last
// process with a reader() exits, put() in your process throws QueueEnded.
//
// A forked process also gets a new holder.  If another thread forks while spawn() sends a queue,
// the queue does not end until the forked process exits or executes another program.
//
// Thread safety: any number of threads may use a queue at the same time.
// Cost: a queue needs four file descriptors in each process, and four more for each reader() and
// writer().  Each storage that was sent or received needs one file descriptor.  While a storage is
// sent and not yet received, its descriptor is in transit.  The kernel allows each user at most
// `ulimit -n` descriptors in transit.  A queue starts no thread.
// PyTorch source: torch/multiprocessing/queue.py.  In Python, get() hangs if all other processes
// have ended.
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

// Thrown if the queue has ended: by get() if no other holder can put items, and by put() if no
// other holder can get items.
class QueueEnded : public c10::DistError {
  using DistError::DistError;
};

// Thrown at the timeout of a call: by get() if the queue is empty, and by put() if the queue is
// full or another process is within put().
class QueueTimeout : public c10::DistError {
  using DistError::DistError;
};

namespace internal {
class QueueHolder;
struct TensorQueueAccess;
}  // namespace internal

class TensorQueue {
 public:
  // The timeout of put() or get().  With a timeout of zero, the call tries once and does not wait.
  using Timeout = std::chrono::milliseconds;
  // The default timeout.
  static constexpr Timeout kTimeout = std::chrono::minutes(5);

  // The content of one call of put().
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

  // Creates a queue for at most `capacity` items.  Error messages show the name.
  //
  // Throws: c10::ValueError if the capacity is 0 or too large.  The largest capacity depends on the
  // kernel setting net.core.wmem_max.  With the kernel's default for this setting, 256 items are
  // always possible.
  explicit TensorQueue(std::size_t capacity, std::string name = "");

  // Adds an item.
  //
  // Blocks: while the queue is full or another process is within put(), at most `timeout`.  A
  // process that is suspended within put() (SIGSTOP, a debugger) blocks put() in other processes.
  // Throws: QueueTimeout at the timeout.
  // Also throws QueueEnded if the queue has ended.
  // Also throws c10::ValueError if this object is a reader().
  // Also throws the exceptions of share_memory_() if a tensor cannot be shared.  If put() throws,
  // it adds nothing to the queue.
  // Cost: put() copies the text, and each storage that is not shared yet.  The item is one packet
  // of 640 bytes in a socket.  An item with a long text or many tensors may not fit into the
  // packet.  Such an item also needs a memory file and one or two file descriptors until get()
  // takes the item.
  void put(const Item& item, Timeout timeout = kTimeout) const;

  // Takes the next item.
  //
  // Blocks: while the queue is empty, at most `timeout`.
  // Throws: QueueTimeout at the timeout.
  // Also throws QueueEnded if the queue has ended.
  // Also throws c10::ValueError if this object is a writer().
  // Cost: get() copies the text.  It maps the tensors and does not copy them.
  Item get(Timeout timeout = kTimeout) const;

  // Returns the number of items in the queue.
  std::size_t size() const;
  // Returns the maximum number of items.
  std::size_t capacity() const;
  // Returns the queue's name.
  const std::string& name() const;

  // Returns a new holder that can get items but not put them.
  //
  // Throws: c10::ValueError if this object is a writer().
  TensorQueue reader() const;
  // Returns a new holder that can put items but not get them.
  //
  // Throws: c10::ValueError if this object is a reader().
  TensorQueue writer() const;

 private:
  friend struct internal::TensorQueueAccess;
  explicit TensorQueue(std::shared_ptr<const internal::QueueHolder> holder);
  const internal::QueueHolder& holder() const;

  std::shared_ptr<const internal::QueueHolder> holder_;
};

}  // namespace distrun

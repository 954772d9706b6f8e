// The work of a send or a receive of the backend shm.
#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>

#include <ATen/core/Tensor.h>
#include <c10/util/intrusive_ptr.h>

#include "backends/shm/host/host_group.h"
#include "backends/shm/shm_tensors.h"
#include "backends/shm/shm_work.h"
#include "common/deadline.h"

namespace distrun::shm {

class MessageWork : public ShmWork {
 public:
  // `timeout` is that of each wait.
  MessageWork(const Facts& facts, std::shared_ptr<HostGroup> group, const at::Tensor& tensor,
              std::chrono::milliseconds timeout)
      : ShmWork(facts, {{tensor}}), group_(std::move(group)), tensor_(tensor), timeout_(timeout) {}

  // Each starts the message of `work`. Throws HostError.
  static void send(const c10::intrusive_ptr<MessageWork>& work, int to, std::uint32_t tag);
  static void receive(const c10::intrusive_ptr<MessageWork>& work, int from, std::uint32_t tag);

  // The group rank of the sender.
  int sourceRank() const override { return message_->peer(); }

 protected:
  void do_here() override { group_->mailbox().wait(*message_, deadline_after(timeout_)); }
  void do_soon() override {}

 private:
  void finish_message(std::exception_ptr error, bool is_receive) noexcept;

  const std::shared_ptr<HostGroup> group_;
  const DenseTensor tensor_;
  const std::chrono::milliseconds timeout_;
  std::shared_ptr<Message> message_;
};

}  // namespace distrun::shm

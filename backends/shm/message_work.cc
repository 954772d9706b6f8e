#include "backends/shm/message_work.h"

#include "backends/shm/ended_tensors.h"
#include "backends/shm/shm_errors.h"

namespace distrun::shm {

void MessageWork::send(const c10::intrusive_ptr<MessageWork>& work, int to, std::uint32_t tag) {
  work->message_ = work->group_->mailbox().send(
      work->tensor_.data(), work->tensor_.bytes(), to, tag,
      [work](const std::exception_ptr& error) { work->finish_message(error, false); });
}

void MessageWork::receive(const c10::intrusive_ptr<MessageWork>& work, int from,
                          std::uint32_t tag) {
  work->message_ = work->group_->mailbox().receive(
      work->tensor_.data(), work->tensor_.bytes(), from, tag,
      [work](const std::exception_ptr& error) { work->finish_message(error, true); });
}

void MessageWork::finish_message(std::exception_ptr error, bool is_receive) noexcept {
  try {
    if (!error && is_receive) tensor_.write_back();
  } catch (...) {
    error = std::current_exception();
  }
  complete(error ? as_backend_error(error) : nullptr);
  if (group_->mailbox().is_own_thread()) EndedTensors::keep(result());
}

}  // namespace distrun::shm

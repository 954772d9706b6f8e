#include "common/operations/operation_pages.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/text/printable.h"
#include "common/text/text_cut.h"

namespace distrun {

namespace {

template <std::size_t kSize>
std::string text_of(const std::array<char, kSize>& text) {
  const auto end = std::find(text.begin(), text.end(), '\0');
  return printable(whole_utf8({text.begin(), end}), kSize);
}

OperationTime time_of(std::int64_t nanoseconds) {
  return std::clamp(OperationTime(std::chrono::nanoseconds(nanoseconds)), OperationTime(),
                    kOperationTimeMax);
}

Operation operation_in(const OperationSlot& slot) {
  Operation found{.number = slot.number,
                  .op = text_of(slot.texts.op),
                  .dtype = text_of(slot.texts.dtype),
                  .sizes = text_of(slot.texts.sizes),
                  .elements = slot.elements,
                  .element_bytes = slot.element_bytes,
                  .group = text_of(slot.texts.group),
                  .group_rank = std::clamp(slot.group_rank, -1, kGroupSizeMax),
                  .group_size = std::clamp(slot.group_size, 0, kGroupSizeMax),
                  .sequence = slot.sequence,
                  .peer = std::clamp(slot.peer, -1, kGroupSizeMax),
                  .began = time_of(slot.began),
                  .tells_end = (slot.flags & OperationSlot::kTellsEnd) != 0};
  if (slot.ended != 0) found.ended = time_of(slot.ended);
  if ((slot.flags & OperationSlot::kHasInputDigest) != 0) found.input_digest = slot.input_digest;
  if (found.ended && (slot.flags & OperationSlot::kHasOutputDigests) != 0) {
    found.output_digests = slot.output_digests;
  }
  return found;
}

}  // namespace

Result<OperationPages> OperationPages::make(std::size_t workers) {
  UniqueFd file(::memfd_create("distrun operations", MFD_CLOEXEC));
  if (!file) return Error::from_errno("memfd_create");
  const std::size_t size = workers * sizeof(OperationPage);
  if (::ftruncate(file.get(), static_cast<off_t>(size)) != 0) {
    return Error::from_errno("size of the memory of operations");
  }
  void* const memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (memory == MAP_FAILED) return Error::from_errno("map the memory of operations");  // NOLINT
  OperationPages made(std::move(file), static_cast<OperationPage*>(memory), workers);
  made.clear();
  return made;
}

OperationPages::OperationPages(UniqueFd file, OperationPage* pages, std::size_t workers)
    : file_(std::move(file)), pages_(pages), workers_(workers) {}

OperationPages::OperationPages(OperationPages&& other) noexcept
    : file_(std::move(other.file_)),
      pages_(std::exchange(other.pages_, nullptr)),
      workers_(std::exchange(other.workers_, 0)) {}

OperationPages::~OperationPages() {
  if (pages_ != nullptr) ::munmap(pages_, workers_ * sizeof(OperationPage));
}

std::string OperationPages::file() const {
  return fmt::format("/proc/{}/fd/{}", ::getpid(), file_.get());
}

std::string OperationPages::address(const std::string& file, std::size_t worker) {
  return fmt::format("{}:{}", file, worker * sizeof(OperationPage));
}

void OperationPages::clear() {
  // Also gives the memory back.
  ::madvise(pages_, workers_ * sizeof(OperationPage), MADV_REMOVE);
  for (std::size_t worker = 0; worker < workers_; ++worker) {
    OperationPage& page = pages_[worker];
    page.begun = 0;
    page.magic = kOperationMagic;
    page.slots = kOperationSlots;
    page.slot_bytes = sizeof(OperationSlot);
  }
}

bool OperationPages::is_recording(std::size_t worker) const {
  auto lock = page_lock(static_cast<off_t>(worker * sizeof(OperationPage)));
  return ::fcntl(file_.get(), F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

std::uint64_t OperationPages::begun(std::size_t worker) const {
  return std::atomic_ref(pages_[worker].begun).load(std::memory_order_acquire);
}

std::optional<Operation> OperationPages::read(std::size_t worker, std::uint64_t number) const {
  OperationSlot& slot = pages_[worker].ring[(number - 1) % kOperationSlots];
  const std::atomic_ref owner(slot.number);
  const std::atomic_ref ended(slot.ended);
  if (owner.load(std::memory_order_acquire) != number) return std::nullopt;
  const std::int64_t end = ended.load(std::memory_order_acquire);
  OperationSlot copy;
  std::memcpy(&copy, &slot, sizeof copy);
  std::atomic_thread_fence(std::memory_order_acquire);
  if (owner.load(std::memory_order_relaxed) != number) return std::nullopt;
  copy.number = number;
  copy.ended = end;
  return operation_in(copy);
}

std::vector<Operation> OperationPages::read_after(std::size_t worker, std::uint64_t after) const {
  const std::uint64_t begun = this->begun(worker);
  std::vector<Operation> found;
  if (begun <= after) return found;
  const std::uint64_t count = std::min<std::uint64_t>(begun - after, kOperationSlots);
  found.reserve(count);
  for (std::uint64_t number = begun - count + 1; number <= begun; ++number) {
    if (auto operation = read(worker, number)) found.push_back(std::move(*operation));
  }
  return found;
}

}  // namespace distrun

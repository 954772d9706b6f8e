#include "common/operations/operation_writer.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <string_view>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/os/process_id.h"
#include "common/text/parse_number.h"

namespace distrun {

namespace {

template <std::size_t kSize>
void copy_text(std::array<char, kSize>& to, std::string_view text) {
  std::copy_n(text.begin(), std::min(text.size(), kSize), to.begin());
}

std::int64_t nanoseconds(OperationTime time) { return time.time_since_epoch().count(); }

bool take(int file, off_t offset) {
  auto lock = page_lock(offset);
  return ::fcntl(file, F_SETLK, &lock) == 0;
}

template <class Number>
std::atomic_ref<Number> atomic(Number& number) {
  return std::atomic_ref<Number>(number);
}

}  // namespace

std::unique_ptr<OperationWriter> OperationWriter::open(const std::string& address) {
  const auto colon = address.rfind(':');
  if (colon == std::string::npos) return nullptr;
  const auto offset = parse_number<off_t>(std::string_view(address).substr(colon + 1));
  UniqueFd file(::open(address.substr(0, colon).c_str(), O_RDWR | O_CLOEXEC));
  if (!offset || !file || !take(file.get(), *offset)) return nullptr;
  void* const memory = ::mmap(nullptr, sizeof(OperationPage), PROT_READ | PROT_WRITE, MAP_SHARED,
                              file.get(), *offset);
  if (memory == MAP_FAILED) return nullptr;  // NOLINT(cppcoreguidelines-pro-type-cstyle-cast)
  auto* const page = static_cast<OperationPage*>(memory);
  if (page->magic != kOperationMagic || page->slots != kOperationSlots ||
      page->slot_bytes != sizeof(OperationSlot)) {
    ::munmap(memory, sizeof(OperationPage));
    return nullptr;
  }
  return std::unique_ptr<OperationWriter>(new OperationWriter(std::move(file), page));
}

OperationWriter::OperationWriter(UniqueFd file, OperationPage* page)
    : file_(std::move(file)), page_(page), process_(process_id()) {}

OperationWriter::~OperationWriter() { ::munmap(page_, sizeof(OperationPage)); }

bool OperationWriter::is_own_process() const { return process_id() == process_; }

OperationTexts operation_texts(std::string_view op, std::string_view dtype, std::string_view sizes,
                               std::string_view group) {
  OperationTexts texts{};
  copy_text(texts.op, op);
  copy_text(texts.dtype, dtype);
  copy_text(texts.sizes, sizes);
  copy_text(texts.group, group);
  return texts;
}

std::uint64_t OperationWriter::begin(const OperationTexts& texts, const BegunOperation& operation) {
  if (!is_own_process()) return 0;
  const std::uint64_t number = page_->begun + 1;
  OperationSlot& slot = page_->ring[(number - 1) % kOperationSlots];
  atomic(slot.number).store(0, std::memory_order_release);
  std::atomic_thread_fence(std::memory_order_release);
  slot.began = nanoseconds(operation.began);
  slot.ended = 0;
  slot.elements = operation.elements;
  slot.input_digest = operation.input_digest.value_or(0);
  slot.sequence = operation.sequence;
  slot.group_rank = operation.group_rank;
  slot.group_size = operation.group_size;
  slot.peer = operation.peer;
  slot.element_bytes = operation.element_bytes;
  slot.flags = (operation.tells_end ? OperationSlot::kTellsEnd : 0) |
               (operation.input_digest ? OperationSlot::kHasInputDigest : 0);
  slot.texts = texts;
  atomic(slot.number).store(number, std::memory_order_release);
  atomic(page_->begun).store(number, std::memory_order_release);
  return number;
}

OperationSlot* OperationWriter::slot_of(std::uint64_t number) {
  if (number == 0 || !is_own_process()) return nullptr;
  OperationSlot& slot = page_->ring[(number - 1) % kOperationSlots];
  return slot.number == number ? &slot : nullptr;
}

void OperationWriter::end(std::uint64_t number, OperationTime at,
                          const std::optional<BlockDigests>& output_digests) {
  OperationSlot* const slot = slot_of(number);
  if (slot == nullptr) return;
  if (output_digests) {
    slot->output_digests = *output_digests;
    slot->flags |= OperationSlot::kHasOutputDigests;
  }
  atomic(slot->ended).store(nanoseconds(at), std::memory_order_release);
  fetch_next_slot();
}

// The ring is larger than the first caches of a CPU, and begin() would wait for each line.
void OperationWriter::fetch_next_slot() const {
  constexpr std::size_t kLine = 64;
  const auto* slot = reinterpret_cast<const char*>(&page_->ring[page_->begun % kOperationSlots]);
  for (std::size_t byte = 0; byte < offsetof(OperationSlot, output_digests); byte += kLine) {
    __builtin_prefetch(slot + byte, /*rw=*/1);
  }
}

void OperationWriter::end_is_unknown(std::uint64_t number) {
  if (OperationSlot* const slot = slot_of(number)) slot->flags &= ~OperationSlot::kTellsEnd;
}

}  // namespace distrun

#include "sharing/queue/queue_holder.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <exception>
#include <set>
#include <thread>

#include <c10/util/Exception.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "distrun/result.h"

namespace distrun::internal {

namespace {

// A packet takes at most this much of a socket's buffer: Linux counts 1280 bytes.
constexpr std::size_t kPacketCost = 1536;

void check_system_call(bool is_good, const char* what) {
  TORCH_CHECK(is_good, Error::from_errno(what).message);
}

UniqueFd duplicate(const UniqueFd& fd) {
  UniqueFd copy(::fcntl(fd.get(), F_DUPFD_CLOEXEC, 0));
  check_system_call(static_cast<bool>(copy), "hold a queue: duplicate a descriptor");
  return copy;
}

void make_room(int socket, std::size_t capacity) {
  const std::size_t bytes = capacity * kPacketCost;
  const auto asked =
      static_cast<int>(std::min<std::size_t>(bytes / 2, INT32_MAX / 2));  // Linux doubles it.
  int size = 0;
  socklen_t length = sizeof(size);
  if (::setsockopt(socket, SOL_SOCKET, SO_SNDBUFFORCE, &asked, sizeof(asked)) != 0) {
    ::setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &asked, sizeof(asked));
  }
  check_system_call(::getsockopt(socket, SOL_SOCKET, SO_SNDBUF, &size, &length) == 0,
                    "look at a socket");
  TORCH_CHECK_VALUE(static_cast<std::size_t>(size) >= bytes, "make a queue: a capacity of ",
                    capacity, " is too large, a socket has room for ",
                    static_cast<std::size_t>(size) / kPacketCost,
                    " items: use a smaller one, or raise net.core.wmem_max");
}

void poll_until(int fd, const UniqueFd& process, std::chrono::steady_clock::time_point deadline) {
  const auto left = deadline - std::chrono::steady_clock::now();
  const auto wait = std::clamp<std::chrono::steady_clock::duration>(left, {}, kLookAgain);
  pollfd watched[] = {{fd, POLLIN, 0}, {process.get(), POLLIN, 0}};
  const auto milliseconds = std::chrono::ceil<std::chrono::milliseconds>(wait).count();
  ::poll(watched, 2, static_cast<int>(milliseconds));
}

// Readable when the process ends. Without a process empty, which poll() ignores.
UniqueFd watch(std::optional<pid_t> process) {
  if (process.value_or(0) <= 0) return {};
  return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, *process, 0)));
}

class PutLock {
 public:
  explicit PutLock(const HolderPresence& presence)
      : presence_(presence), is_held_(presence.try_lock_put()) {}
  ~PutLock() {
    if (is_held_) presence_.unlock_put();
  }
  PutLock(const PutLock&) = delete;
  PutLock& operator=(const PutLock&) = delete;

  bool is_held() const { return is_held_; }

 private:
  const HolderPresence& presence_;
  bool is_held_;
};

}  // namespace

// All holders of this process, which fork() must duplicate.
class ForkHandlers {
 public:
  static ForkHandlers& instance() {
    static auto* const handlers = new ForkHandlers;  // Never freed: queues may be static.
    return *handlers;
  }

  void add(QueueHolder* holder) {
    const std::lock_guard lock(mutex_);
    holders_.insert(holder);
  }

  void remove(QueueHolder* holder) {
    const std::lock_guard lock(mutex_);
    holders_.erase(holder);
  }

 private:
  ForkHandlers() {
    ::pthread_atfork([] { instance().before(); }, [] { instance().in_parent(); },
                     [] { instance().in_child(); });
  }

  void before() {
    mutex_.lock();
    for (QueueHolder* holder : holders_) {
      holder->put_mutex_.lock();
      holder->had_others_ = true;
      try {
        holder->for_child_ = holder->parts_.presence.another(holder->abilities());
      } catch (const std::exception&) {
        holder->for_child_.reset();
      }
    }
  }

  void in_parent() {
    for (QueueHolder* holder : holders_) {
      holder->for_child_.reset();
      holder->put_mutex_.unlock();
    }
    mutex_.unlock();
  }

  void in_child() {
    for (QueueHolder* holder : holders_) {
      if (holder->for_child_) {
        holder->parts_.presence = std::move(*holder->for_child_);
        holder->parts_.presence.announce();
      }
      holder->for_child_.reset();
      holder->put_mutex_.unlock();
    }
    mutex_.unlock();
  }

  std::mutex mutex_;
  std::set<QueueHolder*> holders_;
};

std::shared_ptr<const QueueHolder> QueueHolder::make(std::size_t capacity, std::string name) {
  TORCH_CHECK_VALUE(capacity > 0, "make a queue: its capacity is 0, so nothing could be put");
  auto sockets = make_packet_sockets();
  TORCH_CHECK(sockets, "make a queue: ", sockets.error().message);
  for (const int socket : {sockets->first.get(), sockets->second.get()}) {
    check_system_call(::fcntl(socket, F_SETFL, O_NONBLOCK) == 0, "make a queue: set up a socket");
  }
  make_room(sockets->first.get(), capacity);
  UniqueFd places(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE));
  check_system_call(static_cast<bool>(places), "make a queue: eventfd");
  return std::shared_ptr<const QueueHolder>(
      new QueueHolder({.name = std::move(name),
                       .capacity = capacity,
                       .sender = std::move(sockets->first),
                       .receiver = std::move(sockets->second),
                       .places = std::move(places),
                       .presence = HolderPresence::make({.can_put = true, .can_get = true})}));
}

std::shared_ptr<const QueueHolder> QueueHolder::taken_over(Parts parts) {
  for (const int socket : {parts.sender.get(), parts.receiver.get()}) {
    int type = 0;
    socklen_t length = sizeof(type);
    TORCH_CHECK_VALUE(::getsockopt(socket, SOL_SOCKET, SO_TYPE, &type, &length) == 0 &&
                          type == SOCK_SEQPACKET && parts.capacity > 0,
                      "take a queue over: descriptor ", socket, " and a capacity of ",
                      parts.capacity, " are not a queue's");
  }
  parts.had_others = true;
  return std::shared_ptr<const QueueHolder>(new QueueHolder(std::move(parts)));
}

std::shared_ptr<const QueueHolder> QueueHolder::another(Abilities abilities) const {
  HolderPresence presence = parts_.presence.another(abilities);
  presence.announce();
  had_others_ = true;
  return std::shared_ptr<const QueueHolder>(new QueueHolder({.name = parts_.name,
                                                             .capacity = parts_.capacity,
                                                             .sender = duplicate(parts_.sender),
                                                             .receiver = duplicate(parts_.receiver),
                                                             .places = duplicate(parts_.places),
                                                             .presence = std::move(presence),
                                                             .had_others = true}));
}

HolderPresence QueueHolder::presence_for_another() const {
  had_others_ = true;
  return parts_.presence.another(abilities());
}

QueueHolder::QueueHolder(Parts parts) : parts_(std::move(parts)), had_others_(parts_.had_others) {
  ForkHandlers::instance().add(this);
}

QueueHolder::~QueueHolder() { ForkHandlers::instance().remove(this); }

PutOutcome QueueHolder::try_put(std::string bytes, const std::vector<int>& descriptors) const {
  TORCH_INTERNAL_ASSERT(bytes.size() <= kItemPacketBytes);
  bytes.resize(kItemPacketBytes);
  Result<void> sent;
  {
    const std::lock_guard threads(put_mutex_);
    const PutLock processes(parts_.presence);
    if (!processes.is_held()) return PutOutcome::kSomebodyPuts;
    if (size() >= parts_.capacity) return PutOutcome::kFull;
    sent = send_packet(parts_.sender.get(), bytes, descriptors);
  }
  if (!sent && sent.error().kind == ErrorKind::kTimedOut) return PutOutcome::kFull;
  TORCH_CHECK(sent, "put into ", description(), ": ", sent.error().message);
  std::uint64_t count = 0;
  [[maybe_unused]] const auto taken = ::read(parts_.places.get(), &count, sizeof(count));
  return PutOutcome::kPut;
}

std::optional<Packet> QueueHolder::try_get() const {
  auto packet = receive_packet(parts_.receiver.get());
  if (!packet && packet.error().kind == ErrorKind::kTimedOut) return std::nullopt;
  const std::uint64_t count = 1;
  [[maybe_unused]] const auto freed = ::write(parts_.places.get(), &count, sizeof(count));
  TORCH_CHECK(packet, "get from ", description(), "; an item is lost: ", packet.error().message);
  if (packet->has_ended) return std::nullopt;
  return std::move(*packet);
}

std::string QueueHolder::description() const {
  return parts_.name.empty() ? "a queue" : "the queue \"" + parts_.name + "\"";
}

std::size_t QueueHolder::size() const {
  int bytes = 0;
  check_system_call(::ioctl(parts_.receiver.get(), SIOCINQ, &bytes) == 0, "count a queue's items");
  return static_cast<std::size_t>(bytes) / kItemPacketBytes;
}

bool QueueHolder::is_without_others(Ability ability) const {
  const bool is_able = ability == Ability::kPut ? abilities().can_put : abilities().can_get;
  return (had_others_ || !is_able) && !parts_.presence.other(ability);
}

void QueueHolder::wait_for_item(Clock::time_point deadline) const {
  poll_until(parts_.receiver.get(), watch(parts_.presence.other(Ability::kPut)), deadline);
}

void QueueHolder::wait_for_place(Clock::time_point deadline) const {
  poll_until(parts_.places.get(), watch(parts_.presence.other(Ability::kGet)), deadline);
  std::uint64_t count = 0;
  [[maybe_unused]] const auto taken = ::read(parts_.places.get(), &count, sizeof(count));
}

void QueueHolder::wait_for_putter(Clock::time_point deadline, int tries) {
  constexpr Clock::duration kFirst = std::chrono::microseconds(20);  // About the duration of a put.
  const auto wait = kFirst * (1 << std::clamp(tries - 1, 0, 9));
  std::this_thread::sleep_until(std::min(deadline, Clock::now() + wait));
}

}  // namespace distrun::internal

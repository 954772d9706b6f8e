#include "sharing/memory/holder_presence.h"

#include <cerrno>
#include <cstdint>
#include <string>

#include <c10/util/Exception.h>
#include <fcntl.h>
#include <unistd.h>

#include "distrun/result.h"
#include "sharing/memory/memory_file.h"

namespace distrun::internal {

namespace {

constexpr char kDoing[] = "hold what is shared";
constexpr int kPlacesMax = 4096;
constexpr off_t kPlaceBytes = sizeof(std::int32_t);

off_t first_place(Ability ability) {
  return kPlaceBytes * (1 + (ability == Ability::kPut ? 0 : kPlacesMax));
}

// Calls fcntl() on `bytes` bytes from `start`; `request` receives another holder's lock.
int lock(int fd, int command, short type, off_t start, off_t bytes, struct flock& request) {
  request = {};
  request.l_type = type;
  request.l_whence = SEEK_SET;
  request.l_start = start;
  request.l_len = bytes;
  int done = -1;
  do {
    done = ::fcntl(fd, command, &request);
  } while (done != 0 && errno == EINTR);
  return done;
}

void check_lock(bool is_good, const char* what) {
  TORCH_CHECK(is_good, kDoing, ": ", Error::from_errno(what).message);
}

int take_place(int fd, Ability ability) {
  struct flock request {};
  for (int place = 0; place < kPlacesMax; ++place) {
    const off_t start = first_place(ability) + place * kPlaceBytes;
    if (lock(fd, F_OFD_SETLK, F_WRLCK, start, kPlaceBytes, request) == 0) return place;
    check_lock(errno == EAGAIN || errno == EACCES, "lock a place");
  }
  TORCH_CHECK(false, kDoing, ": there are already ", kPlacesMax, " holders");
}

// The pid only helps to wait, so it is omitted beyond `ulimit -f`, where writing raises SIGXFSZ.
void write_pid(int fd, Ability ability, int place, std::int32_t pid) noexcept {
  const off_t start = first_place(ability) + place * kPlaceBytes;
  if (place < 0 || !may_be_file_size(static_cast<std::size_t>(start + kPlaceBytes))) return;
  [[maybe_unused]] const auto written = ::pwrite(fd, &pid, sizeof(pid), start);
}

}  // namespace

HolderPresence HolderPresence::make(Abilities abilities) {
  HolderPresence presence = join(make_memory_file("distrun presence", 0, kDoing), abilities);
  presence.announce();
  return presence;
}

HolderPresence HolderPresence::taken_over(UniqueFd file, Places places) {
  TORCH_CHECK_VALUE(places.put >= -1 && places.put < kPlacesMax && places.get >= -1 &&
                        places.get < kPlacesMax && ::fcntl(file.get(), F_GET_SEALS) >= 0,
                    "take over what is shared: places ", places.put, " and ", places.get,
                    " of descriptor ", file.get());
  HolderPresence presence(std::move(file), places);
  presence.announce();
  return presence;
}

HolderPresence HolderPresence::join(UniqueFd file, Abilities abilities) {
  Places places;
  if (abilities.can_put) places.put = take_place(file.get(), Ability::kPut);
  if (abilities.can_get) places.get = take_place(file.get(), Ability::kGet);
  write_pid(file.get(), Ability::kPut, places.put, 0);
  write_pid(file.get(), Ability::kGet, places.get, 0);
  return {std::move(file), places};
}

HolderPresence HolderPresence::another(Abilities abilities) const {
  const std::string path = "/proc/self/fd/" + std::to_string(file_.get());
  UniqueFd file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  check_lock(static_cast<bool>(file), path.c_str());
  return join(std::move(file), abilities);
}

void HolderPresence::announce() const noexcept {
  write_pid(file_.get(), Ability::kPut, places_.put, ::getpid());
  write_pid(file_.get(), Ability::kGet, places_.get, ::getpid());
}

std::optional<pid_t> HolderPresence::other(Ability ability) const {
  struct flock request {};
  check_lock(lock(file_.get(), F_OFD_GETLK, F_WRLCK, first_place(ability), kPlacesMax * kPlaceBytes,
                  request) == 0,
             "look for others");
  if (request.l_type == F_UNLCK) return std::nullopt;
  std::int32_t pid = 0;
  if (::pread(file_.get(), &pid, sizeof(pid), request.l_start) != sizeof(pid)) pid = 0;
  return pid;
}

bool HolderPresence::try_lock_put() const {
  struct flock request {};
  if (lock(file_.get(), F_OFD_SETLK, F_WRLCK, 0, kPlaceBytes, request) == 0) return true;
  check_lock(errno == EAGAIN || errno == EACCES, "lock it for a put");
  return false;
}

void HolderPresence::unlock_put() const noexcept {
  struct flock request {};
  lock(file_.get(), F_OFD_SETLK, F_UNLCK, 0, kPlaceBytes, request);
}

}  // namespace distrun::internal

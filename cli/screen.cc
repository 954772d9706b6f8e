#include "cli/screen.h"

#include <sys/ioctl.h>

namespace distrun {

Screen screen_of(int fd) {
  winsize size{};
  if (::ioctl(fd, TIOCGWINSZ, &size) != 0) return {};
  return {size.ws_row, size.ws_col};
}

}  // namespace distrun

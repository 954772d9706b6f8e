// The size of a terminal.
//
//     screen_of(STDOUT_FILENO).columns   // 80
#pragma once

namespace distrun {

struct Screen {
  int rows = 0, columns = 0;  // 0: unknown, or not a terminal.
};

Screen screen_of(int fd);

}  // namespace distrun

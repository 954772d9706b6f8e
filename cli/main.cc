#include <iostream>

#include <fcntl.h>
#include <unistd.h>

#include "cli/app.h"

// A descriptor that is closed, as a daemon or `>&-` leaves it, would be taken by the next file that
// is opened, and what is meant for the output would go there.
static void open_standard_descriptors() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(fd, F_GETFD) == -1) ::open("/dev/null", O_RDWR);  // Takes the lowest that is free.
  }
}

int main(int argc, char** argv) {
  open_standard_descriptors();
  return distrun::run({argv, argv + argc}, distrun::Environment::from(environ), std::cout,
                      std::cerr);
}

#include <iostream>

#include <fcntl.h>
#include <unistd.h>

#include "cli/app.h"

// If a daemon or `>&-` has closed a standard descriptor, the next opened file would take its number
// and receive the output.
static void open_standard_descriptors() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(fd, F_GETFD) == -1) ::open("/dev/null", O_RDWR);  // Takes the lowest free number.
  }
}

int main(int argc, char** argv) {
  open_standard_descriptors();
  return distrun::run({argv, argv + argc}, distrun::Environment::from(environ), std::cout,
                      std::cerr);
}

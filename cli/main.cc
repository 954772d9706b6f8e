#include <iostream>

#include <unistd.h>

#include "cli/app.h"

int main(int argc, char** argv) {
  return distrun::run({argv + 1, argv + argc}, distrun::Environment::from(environ), std::cout,
                      std::cerr);
}

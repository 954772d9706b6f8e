// Programs whose file or main() is not as spawn() would have it:
//
//     spawn_without_call                 main() does not call run_if_spawned()
//     spawn_without_call unlinked        it does, and the file of the program is gone when it
//     spawns
#include <chrono>
#include <cstdio>
#include <string>

#include <c10/util/Exception.h>
#include <unistd.h>

#include "sharing/spawn.h"

namespace {

void greet(int index, distrun::SpawnArguments& arguments) {
  std::printf("process %d was told %s\n", index, arguments.text.c_str());
}
const distrun::SpawnFunction kGreet("greet", greet);

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1) {
    distrun::run_if_spawned();
    ::unlink(argv[0]);
  }
  try {
    distrun::spawn(kGreet, 1, {.arguments = {.text = "hello"}, .timeout = std::chrono::minutes(1)});
  } catch (const c10::Error& error) {
    std::printf("%s\n", error.what_without_backtrace());
    return 3;
  }
}

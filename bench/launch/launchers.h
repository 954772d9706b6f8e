// The launchers that are compared, as far as they are installed here.
//
//     for (const Launcher& launcher : find_launchers({}, missing)) {
//       LauncherProcess run(launcher.command(64, {"/bin/true"}));
//       run.wait();
//     }
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace distrun::bench {

using Words = std::vector<std::string>;

struct Launcher {
  std::string name;
  std::function<Words(int workers, const Words& program)> command;
  int workers_max = 1 << 20;  // More of them take too long.
  int rounds_max = 1 << 20;
  bool ends_on_failure = true;  // The failure of one worker ends the others.
};

// In the order of the table: the floor, distrun, its peers.  `wanted`: only these; empty: all.
// Whatever is left out has its line in `left_out`.
std::vector<Launcher> find_launchers(const Words& wanted, Words& left_out);

}  // namespace distrun::bench

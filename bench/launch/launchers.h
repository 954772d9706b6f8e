// The installed launchers to compare.
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
  int workers_max = 1 << 20;  // More take too long.
  int rounds_max = 1 << 20;
  bool ends_on_failure = true;  // One failed worker ends the others.
};

// In the order of the table: the floor, distrun, its peers. Only those in `wanted`, or all if it is
// empty. `left_out` gets a line for each missing launcher.
std::vector<Launcher> find_launchers(const Words& wanted, Words& left_out);

}  // namespace distrun::bench

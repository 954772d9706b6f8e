#include "common/os/cgroup.h"

#include <fstream>
#include <sstream>
#include <utility>

namespace distrun {

std::vector<Cgroup> cgroups(const std::string& controller, const std::string& root) {
  const std::string mount = root + "/sys/fs/cgroup";
  std::vector<Cgroup> groups;
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string path = line.substr(second + 1);
    if (controllers == ",,") {
      groups.push_back({2, mount, path});
    } else if (controllers.find("," + controller + ",") != std::string::npos) {
      std::string of_controller = mount;
      of_controller.append("/").append(controller);
      groups.push_back({1, std::move(of_controller), path});
    }
  }
  return groups;
}

std::vector<Cgroup> memory_cgroups(const std::string& root) { return cgroups("memory", root); }

std::optional<std::uint64_t> named_number(const std::string& path, const std::string& name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string word;
    std::uint64_t number = 0;
    if (words >> word >> number && word == name) return number;
  }
  return std::nullopt;
}

}  // namespace distrun

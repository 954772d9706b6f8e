#include "cli/launch_flags.h"

#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace distrun {
namespace {

TEST(LaunchFlagsTest, NamesAndLettersAreUnique) {
  std::set<std::string_view> names;
  std::set<char> letters;
  for (const LaunchFlag& flag : launch_flags()) {
    EXPECT_TRUE(names.insert(flag.name).second) << flag.name;
    EXPECT_FALSE(flag.help.empty()) << flag.name;
    if (flag.letter != 0) {
      EXPECT_TRUE(letters.insert(flag.letter).second) << flag.letter;
    }
  }
}

TEST(LaunchFlagsTest, VariablesHaveTorchrunsNames) {
  for (const LaunchFlag& flag : launch_flags()) {
    if (flag.name == "nproc-per-node") {
      EXPECT_EQ(variable_of(flag), "PET_NPROC_PER_NODE");
    }
    if (flag.name == "logs-specs") {
      EXPECT_EQ(variable_of(flag), "");
    }
  }
}

// The second cell of each row of a flag, by the first cell.
std::map<std::string, std::string> rows_of(const std::string& file) {
  std::map<std::string, std::string> rows;
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) {
    if (!line.starts_with("| `-")) continue;
    std::istringstream cells(line.substr(2));
    std::string name, worth;
    std::getline(cells, name, '|');
    std::getline(cells, worth, '|');
    rows[name.substr(0, name.size() - 1)] = worth.substr(1, worth.size() - 2);
  }
  return rows;
}

TEST(LaunchFlagsTest, TorchrunPageListsExactlyTheFlags) {
  std::map<std::string, std::string> listed;
  for (const LaunchFlag& flag : launch_flags()) {
    std::string cell = "`--" + std::string(flag.name) + "`";
    if (flag.letter != 0) cell = std::string("`-") + flag.letter + "`, " + cell;
    listed[cell] = text_of(flag.worth);
  }
  EXPECT_EQ(rows_of(DISTRUN_DOCS "/torchrun.md"), listed);
}

}  // namespace
}  // namespace distrun

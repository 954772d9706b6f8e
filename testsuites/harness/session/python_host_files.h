// The files of harness/python/, which the build writes into this program.
#pragma once

#include <span>
#include <string_view>

namespace distrun {

struct PythonHostFile {
  const char* name;
  std::string_view text;
};

std::span<const PythonHostFile> python_host_files();

}  // namespace distrun

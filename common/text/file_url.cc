#include "common/text/file_url.h"

#include <algorithm>

namespace distrun {

namespace {

constexpr std::string_view kScheme = "file://";

Error invalid(std::string_view text, std::string_view problem) {
  return {ErrorKind::kInvalidArgument, "'" + std::string(text) + "' " + std::string(problem)};
}

}  // namespace

Result<std::string> file_url(std::string_view path) {
  if (!path.starts_with('/')) return invalid(path, "is not an absolute path");
  if (path.find_first_of("?#\t\r\n") != std::string_view::npos) {
    return invalid(path, "has a '?', '#', tab or line break, which a file:// URL cannot carry");
  }
  // After two leading slashes, Python would read a host name.
  path.remove_prefix(std::min(path.find_first_not_of('/'), path.size()));
  return std::string(kScheme) + "/" + std::string(path);
}

Result<std::string> path_of_file_url(std::string_view url) {
  if (!url.starts_with(kScheme)) return invalid(url, "is not a file:// URL");
  const std::string path(url.substr(kScheme.size()));
  if (const auto whole = file_url(path); !whole) return whole.error();
  return path;
}

}  // namespace distrun

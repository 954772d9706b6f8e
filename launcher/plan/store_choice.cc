#include "launcher/plan/store_choice.h"

#include <filesystem>

#include "common/text/file_url.h"

namespace distrun {

Result<StoreChoice> parse_store_choice(std::string_view text, const std::string& folder) {
  constexpr std::string_view kFile = "file:";
  if (text == "tcp") return StoreChoice{};
  if (!text.starts_with(kFile) || text == kFile) {
    return Error{ErrorKind::kInvalidArgument,
                 "'" + std::string(text) + "' is neither 'tcp' nor 'file:PATH'"};
  }
  // Workers receive the path in a URL, which limits what it may contain.
  const auto url = file_url((std::filesystem::path(folder) / text.substr(kFile.size())).string());
  if (!url) return url.error();
  return StoreChoice{StoreChoice::Kind::kFile, path_of_file_url(*url).value()};
}

}  // namespace distrun

// shell_quoted quotes a word so that a shell reads it unchanged.
//
//     shell_quoted("--lr=0.1")     // --lr=0.1
//     shell_quoted("it's")         // 'it'\''s'
#pragma once

#include <string>
#include <string_view>

namespace distrun {

std::string shell_quoted(std::string_view word);

}  // namespace distrun

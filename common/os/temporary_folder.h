// A new folder for what is temporary, where Python's tempfile would make it, and so torchrun: in
// the first of TMPDIR, TEMP, TMP, /tmp, /var/tmp, /usr/tmp and the current folder that takes one.
//
//     auto folder = make_temporary_folder(environment, "distrun");     // /tmp/distrun_x3kQ2a
//     if (!folder) return folder.error();      // "make a folder /tmp/distrun_XXXXXX: …"
#pragma once

#include <string>

#include "common/os/environment.h"
#include "distrun/result.h"

namespace distrun {

// A new folder, whose name begins with `path`; only this user may enter it.
Result<std::string> make_unique_folder(std::string path);

// Absolute, because a worker may change its folder.  Fails where none of them takes one, with what
// became of the first.
Result<std::string> make_temporary_folder(const Environment& environment, const std::string& name);

}  // namespace distrun

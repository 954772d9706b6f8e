// The parts of pages, from the files in this folder.
#pragma once

namespace distrun {

extern const char* const kPage;
extern const char* const kStyle;
extern const char* const kCommonScript;
extern const char* const kTestsScript;
extern const char* const kRunScript;

}  // namespace distrun

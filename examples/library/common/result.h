// The user's own: distrun's headers are all in <distrun/…>, so folders may have any name.
#pragma once

struct Result {
  int ranks_here = 0;
};

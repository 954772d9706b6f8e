// The user's: distrun's headers are all in <distrun/…>, so other folders may have any name.
#pragma once

struct Result {
  int ranks_here = 0;
};

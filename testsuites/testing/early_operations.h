// Counts tensor operations before main(), which would run once for all ranks.
#pragma once

namespace distrun {

// Since the program was loaded.
int operations_so_far();

// Stops counting; called in ranks.
void allow_operations();

}  // namespace distrun

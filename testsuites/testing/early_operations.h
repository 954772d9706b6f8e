// Counts tensor operations before main(): they would run once for all ranks.
#pragma once

namespace distrun {

// Operations dispatched since the program was loaded.
int operations_so_far();

// Stops counting; called in ranks.
void allow_operations();

}  // namespace distrun

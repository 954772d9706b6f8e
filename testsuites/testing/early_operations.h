// Sees tensor operations that are run before main(): each would have been run once for all ranks.
#pragma once

namespace distrun {

// That have been dispatched since the program was loaded.
int operations_so_far();

// In a rank: they are not looked at any more.
void allow_operations();

}  // namespace distrun

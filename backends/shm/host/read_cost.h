// How long process_vm_readv(2) takes to copy memory from another process, as a multiple of a copy
// within this one. Depending on the processor and the kernel, that is some 1 to 10 times as long.
//
// Measured at the first call in each process, which takes about a millisecond. Infinite if the
// kernel refuses. Thread safety: any thread.
#pragma once

namespace distrun::shm {

double read_cost();

}  // namespace distrun::shm

// Tells a hook that wraps another one whether to wait for its result.
//
// PowerSGD completes the futures of all buckets in the hook of the last one. A wrapper that waits
// in an earlier hook would wait forever.
//
// Thread safety: of each thread alone. A hook and its wrapper run on the same thread.
#pragma once

namespace distrun::internal {

// Call it in a hook whose future completes only in a later call of the hook.
void note_late_future();

// Whether a hook on this thread has called note_late_future() since the last call.
bool take_late_future();

}  // namespace distrun::internal

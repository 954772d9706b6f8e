// What a DdpReducer does in a join: for ranks that have not joined, when its own has, and before
// its own forwards while others may have joined.  For ddp_reducer.cc.
#pragma once

#include <memory>

#include "distrun/join.h"
#include "parallel/ddp/ddp_core.h"

namespace distrun::internal {

// The greatest group rank of those that are candidates.  A collective.
int agree_on_source(const DdpCore& core, bool is_candidate);

// A collective, under way when it returns.
ReducingAgreement agree_on_reducing(const DdpCore& core, bool backward_reduces);

// Waits for core.agreement, if there is one.  Throws if another rank's backward will reduce, and
// this one's will not.
void check_agreement(DdpCore& core);

// Works on `core`, which must outlive it.
std::unique_ptr<JoinHook> ddp_join_hook(DdpCore& core, const JoinArguments& arguments);

}  // namespace distrun::internal

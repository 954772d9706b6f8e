// A DdpReducer's part in a join. Before its rank has joined, it checks each forward. Afterwards, it
// runs the collectives that match the other ranks'.
#pragma once

#include <memory>

#include "distrun/join.h"
#include "parallel/ddp/ddp_core.h"

namespace distrun::internal {

// A collective. Returns the greatest group rank of the candidates, of which there must be one.
int agree_on_source(const DdpCore& core, bool is_candidate);

// Starts a collective without waiting.
ReducingAgreement agree_on_reducing(const DdpCore& core, bool backward_reduces);

// Waits for core.agreement, if any. Throws if another rank's backward will reduce and this rank's
// will not.
void check_agreement(DdpCore& core);

// `core` must outlive the hook.
std::unique_ptr<JoinHook> ddp_join_hook(DdpCore& core, const JoinArguments& arguments);

}  // namespace distrun::internal

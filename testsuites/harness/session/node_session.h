// A run of tests on a node that is not node 0: it joins node 0, and runs the ranks that node 0 asks
// for (nodes/node_agent.h). It prints only what goes wrong here.
//
//     const auto end = run_node_session(options, context);      // options.nodes is set
//
// Threads: requires a process with one thread and no children.
#pragma once

#include "testsuites/harness/session/test_session.h"

namespace distrun {

// The status is that of node 0. Fails if this node cannot join.
Result<TestSessionEnd> run_node_session(const TestSessionOptions& options,
                                        const TestSessionContext& context);

}  // namespace distrun

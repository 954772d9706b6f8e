// What a client of the store waits for, in words.
//
//     text_of(wait)                  // "for ready/2, ready/3 and 5 more"
//     text_of(wait_in_a_barrier)     // "in the barrier epoch/1: 2 of 4 clients arrived"
//
// Pure.
#pragma once

#include <string>
#include <string_view>

#include "distrun/store_status.h"

namespace distrun {

std::string text_of(const StoreWait& wait);

// A key without the '/' that torch's TCPStore puts before it; bytes that would confuse a terminal
// are escaped.
std::string shown_key(std::string_view key);

}  // namespace distrun

// read_pickle reads a pickle of plain values: None, bools, numbers, strings, lists, tuples and
// dicts. LibTorch's pickler writes those for dumps of c10d's flight recorder.
//
//     const auto dump = read_pickle(bytes);
//     if (!dump) return dump.error();   // kProtocol: "not a pickle of plain values: …"
//     dump->at("version");
//
// A tuple becomes an array. Keys of a dict must be strings. Pickles that would call or import
// something are refused, so that a dump of another user can do nothing. Pure.
#pragma once

#include <string_view>

#include <nlohmann/json.hpp>

#include "distrun/result.h"

namespace distrun {

Result<nlohmann::json> read_pickle(std::string_view bytes);

}  // namespace distrun

// read_pickle reads a pickle of plain values: None, bools, numbers, strings, lists, tuples and
// dicts. LibTorch's pickler writes those for dumps of c10d's flight recorder.
//
//     const auto dump = read_pickle(bytes);
//     if (!dump) return dump.error();   // kProtocol: "not a pickle of plain values: …"
//     dump->at("version");
//
// A tuple becomes an array. Keys of a dict must be strings. Refuses pickles that would call or
// import something, that use a list or dict twice which grows in between (LibTorch's do not), and
// that are nested or grow beyond any dump: time and memory are bounded for any bytes. Pure.
#pragma once

#include <string_view>

#include <nlohmann/json.hpp>

#include "distrun/result.h"

namespace distrun {

Result<nlohmann::json> read_pickle(std::string_view bytes);

}  // namespace distrun

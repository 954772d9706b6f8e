#include "backends/shm/host/test/model/sites.h"

#include <cstdlib>
#include <string>

#include <cxxabi.h>
#include <dlfcn.h>

namespace distrun::shm::model {

namespace {

// "distrun::shm::Phases::publish()" becomes "Phases::publish".
std::string function_at(const void* address) {
  Dl_info info{};
  if (::dladdr(address, &info) == 0 || info.dli_sname == nullptr) return "?";
  int status = 0;
  char* text = abi::__cxa_demangle(info.dli_sname, nullptr, nullptr, &status);
  std::string name = status == 0 ? text : info.dli_sname;
  std::free(text);
  name = name.substr(0, name.find('('));
  for (const std::string space : {"distrun::shm::", "model::", "std::"}) {
    if (name.rfind(space, 0) == 0) name = name.substr(space.size());
  }
  return name;
}

}  // namespace

int Sites::number_of(const Operation& operation, const Callers& callers, const Location& location) {
  const void* caller = operation.caller;
  for (std::size_t above = 1; above <= callers.depth() && is_in_library(caller); ++above) {
    caller = callers.back(above);
  }
  const auto key = std::make_pair(caller, location.name_number);
  const auto found = numbers_.find(key);
  if (found != numbers_.end()) return found->second;
  Site site;
  site.caller = caller;
  site.location = location.name;
  site.text = function_at(caller) + " " + location.name + "." + name_of(operation);
  site.acquires = acquires(operation);
  site.releases = releases(operation);
  site.failure_acquires = failure_acquires(operation);
  all_.push_back(site);
  return numbers_[key] = static_cast<int>(all_.size()) - 1;
}

// Such as std::atomic<RankState>::load(), which is not inline.
bool Sites::is_in_library(const void* caller) {
  const auto found = are_in_library_.find(caller);
  if (found != are_in_library_.end()) return found->second;
  const std::string function = function_at(caller);
  const bool is = function.rfind("atomic<", 0) == 0 || function.rfind("__atomic_base<", 0) == 0;
  return are_in_library_[caller] = is;
}

}  // namespace distrun::shm::model

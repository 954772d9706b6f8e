#include "launcher/hosts/host_choice.h"

#include <utility>

#include <fmt/format.h>

#include "common/text/words.h"
#include "launcher/engines/host_list.h"
#include "launcher/plan/rendezvous.h"

namespace distrun {

namespace {

Error wrong_hosts(std::string message) { return {ErrorKind::kInvalidArgument, std::move(message)}; }

// ssh would take a leading dash for a flag.
bool is_plain(std::string_view name) { return is_host(name) && !name.starts_with('-'); }

struct Element {
  std::string user;  // "me@"; may be empty.
  std::string_view host;
  std::optional<std::string> workers;
};

// "me@gpu[1-2]:8". The number of workers follows the last colon that is not in brackets.
Result<Element> split_element(std::string_view text) {
  Element element;
  if (const auto at = text.find('@'); at != text.npos) {
    element.user = std::string(text.substr(0, at + 1));
    if (!is_plain(text.substr(0, at))) return wrong_hosts(fmt::format("'{}' has no user", text));
    text.remove_prefix(at + 1);
  }
  const auto bracket = text.rfind(']');
  const auto colon = text.find(':', bracket == text.npos ? 0 : bracket);
  if (colon != text.npos) {
    if (text.find(':', colon + 1) != text.npos) {
      return wrong_hosts(
          fmt::format("'{}' has two colons; write an IPv6 address in brackets", text));
    }
    element.workers = std::string(text.substr(colon + 1));
    if (element.workers->empty()) {
      return wrong_hosts(fmt::format("'{}' has no number of workers after the colon", text));
    }
  }
  element.host = text.substr(0, colon);
  return element;
}

}  // namespace

Result<std::vector<HostChoice>> parse_hosts(std::string_view text) {
  std::vector<HostChoice> hosts;
  const auto elements = split_list(text);
  if (!elements) return wrong_hosts(fmt::format("'{}' has a bracket without the other one", text));
  for (const std::string_view each : *elements) {
    const std::string_view given = trimmed(each);
    if (given.empty()) return wrong_hosts(fmt::format("'{}' has an empty name", text));
    const auto element = split_element(given);
    if (!element) return element.error();
    std::vector<std::string> addresses;
    if (element->host.starts_with('[') && element->host.ends_with(']')) {
      addresses.emplace_back(element->host.substr(1, element->host.size() - 2));
    } else {
      auto names = expand_host_list(element->host);
      if (!names) return names.error();
      addresses = std::move(*names);
    }
    for (std::string& address : addresses) {
      if (!is_plain(address)) {
        return wrong_hosts(fmt::format("'{}' is not a host", address));
      }
      std::string destination = element->user + address;
      hosts.push_back({std::move(destination), std::move(address), element->workers});
      if (hosts.size() > kHostsMax) {
        return wrong_hosts(fmt::format("more than {} hosts", kHostsMax));
      }
    }
  }
  return hosts;
}

}  // namespace distrun

#include "launcher/preflight/run_findings.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/text/rank_list.h"

namespace distrun {

namespace {

// Which of two nodes cannot connect to the other.
enum class Broken { kTo, kFrom, kBoth };

class RunFindings {
 public:
  explicit RunFindings(const std::vector<CheckedNode>& nodes) : nodes_(nodes) {}

  std::vector<std::string> find() {
    for (const CheckedNode& node : nodes_) {
      for (const std::string& finding : node.report.findings) {
        findings_.push_back(nodes_.size() == 1 ? finding
                                               : name_of(node.report.node) + ": " + finding);
      }
    }
    connections();
    clocks();
    versions();
    mtus();
    variables();
    gpus();
    return std::move(findings_);
  }

 private:
  using TextOf = std::function<std::optional<std::string>(const NodeCheck&)>;

  const CheckedNode& at(int node) const {
    return *std::find_if(nodes_.begin(), nodes_.end(),
                         [&](const CheckedNode& one) { return one.report.node == node; });
  }

  // "node 1 (gpu-2)"
  std::string name_of(int node) const {
    return fmt::format("node {} ({})", node, at(node).report.host);
  }

  // "node 1 (gpu-2)", "nodes 1-3"
  std::string names_of(const std::vector<int>& nodes) const {
    if (nodes.size() == 1) return name_of(nodes.front());
    const std::string ranks = list_of_ranks(nodes);
    return "nodes" + ranks.substr(ranks.find(' '));
  }

  // "8 on node 0 (gpu-1), 4 on nodes 1-3", in the order of the nodes; empty if the values are the
  // same. Nodes without a value are left out.
  std::string differences(const TextOf& text_of) const {
    std::vector<std::pair<std::string, std::vector<int>>> values;
    for (const CheckedNode& node : nodes_) {
      const auto text = text_of(node.report);
      if (!text) continue;
      auto same = std::find_if(values.begin(), values.end(),
                               [&](const auto& value) { return value.first == *text; });
      if (same == values.end()) same = values.insert(values.end(), {*text, {}});
      same->second.push_back(node.report.node);
    }
    if (values.size() < 2) return "";
    std::vector<std::string> parts;
    parts.reserve(values.size());
    for (const auto& [value, nodes] : values) {
      parts.push_back(fmt::format("{} on {}", value, names_of(nodes)));
    }
    return fmt::format("{}", fmt::join(parts, ", "));
  }

  void connections() {
    // By the lower node, then by the higher one.
    std::map<int, std::map<int, Broken>> broken;
    for (const CheckedNode& node : nodes_) {
      for (const Unreachable& other : node.reach.unreachable) {
        add_broken(broken, node.report.node, other.node, Broken::kTo);
        add_broken(broken, other.node, node.report.node, Broken::kFrom);
      }
    }
    // The node with most broken pairs comes first, because it is probably the cause.
    while (true) {
      const auto worst = std::max_element(
          broken.begin(), broken.end(),
          [](const auto& one, const auto& two) { return one.second.size() < two.second.size(); });
      if (worst == broken.end() || worst->second.empty()) return;
      const auto [node, others] = *worst;
      broken.erase(worst);
      for (auto& [other, pairs] : broken) pairs.erase(node);
      for (const Broken direction : {Broken::kBoth, Broken::kTo, Broken::kFrom}) {
        tell_broken(node, others, direction);
      }
    }
  }

  static void add_broken(std::map<int, std::map<int, Broken>>& broken, int node, int other,
                         Broken direction) {
    const auto [known, is_new] = broken[node].try_emplace(other, direction);
    if (!is_new && known->second != direction) known->second = Broken::kBoth;
  }

  std::string problem_between(int node, int other) const {
    for (const Unreachable& one : at(node).reach.unreachable) {
      if (one.node == other) return one.problem;
    }
    return "";
  }

  void tell_broken(int node, const std::map<int, Broken>& others, Broken direction) {
    std::vector<int> peers;
    for (const auto& [other, broken] : others) {
      if (broken == direction) peers.push_back(other);
    }
    if (peers.empty()) return;
    const std::string one = name_of(node), many = names_of(peers);
    const auto target = [&](int to) { return fmt::format("{}", at(to).report.address); };
    const std::string where = peers.size() == 1 ? " at " + target(peers.front()) : "";
    std::string text;
    if (direction == Broken::kBoth) {
      text = fmt::format("{} and {} cannot connect to each other ({})", one, many,
                         problem_between(node, peers.front()));
    } else if (direction == Broken::kTo) {
      text = fmt::format("{} cannot connect to {}{} ({})", one, many, where,
                         problem_between(node, peers.front()));
    } else {
      text = fmt::format("{} cannot connect to {} at {} ({})", many, one, target(node),
                         problem_between(peers.front(), node));
    }
    findings_.push_back(
        text +
        ": allow connections on all ports between the nodes, or choose another network with "
        "GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME");
  }

  void clocks() {
    // A busy node may read its clock late: of several readings, those closest together count.
    std::chrono::microseconds apart = std::chrono::microseconds::max();
    int first = 0, last = 0;
    std::size_t readings = nodes_.empty() ? 0 : nodes_.front().reach.clock.size();
    for (const CheckedNode& node : nodes_) readings = std::min(readings, node.reach.clock.size());
    for (std::size_t i = 0; i < readings; ++i) {
      const auto [low, high] = std::minmax_element(
          nodes_.begin(), nodes_.end(), [i](const CheckedNode& one, const CheckedNode& two) {
            return one.reach.clock[i] < two.reach.clock[i];
          });
      const auto difference = high->reach.clock[i] - low->reach.clock[i];
      if (difference >= apart) continue;
      apart = difference;
      first = high->report.node;
      last = low->report.node;
    }
    if (readings == 0 || apart <= kClocksApartMax) return;
    findings_.push_back(fmt::format(
        "the clock of {} is {:.1f} s ahead of that of {}: synchronize the clocks of all nodes "
        "(chrony, ntpd)",
        name_of(first), std::chrono::duration<double>(apart).count(), name_of(last)));
  }

  void versions() {
    const std::string differ = differences([](const NodeCheck& node) {
      return node.torch && node.torch->empty() ? std::optional<std::string>("none") : node.torch;
    });
    if (differ.empty()) return;
    findings_.push_back(
        fmt::format("the version of PyTorch differs: {}: install the same version on all nodes, or "
                    "give the Python that has it (PYTHON_EXEC)",
                    differ));
  }

  void mtus() {
    const std::string differ = differences([](const NodeCheck& node) {
      return node.mtu ? std::optional(std::to_string(*node.mtu)) : std::nullopt;
    });
    if (differ.empty()) return;
    findings_.push_back(fmt::format(
        "the MTU of the network between the nodes differs: {}: set the same MTU everywhere (ip "
        "link set {} mtu N)",
        differ, nodes_.front().report.interface));
  }

  void variables() {
    std::set<std::string> names;
    for (const CheckedNode& node : nodes_) {
      for (const auto& [name, value] : node.report.variables) names.insert(name);
    }
    for (const std::string& name : names) {
      const std::string differ =
          differences([&](const NodeCheck& node) -> std::optional<std::string> {
            const auto found = node.variables.find(name);
            if (found == node.variables.end()) return "not set";
            return found->second.empty() ? "empty" : found->second;
          });
      if (differ.empty()) continue;
      findings_.push_back(
          fmt::format("{} differs: {}: set the same value on all nodes", name, differ));
    }
  }

  void gpus() {
    const std::string differ =
        differences([](const NodeCheck& node) { return std::optional(std::to_string(node.gpus)); });
    if (differ.empty()) return;
    findings_.push_back(
        fmt::format("the number of GPUs differs: {}: look for missing GPUs with nvidia-smi, or "
                    "give each node its own --nproc-per-node",
                    differ));
  }

  const std::vector<CheckedNode>& nodes_;
  std::vector<std::string> findings_;
};

}  // namespace

std::vector<std::string> run_findings(std::vector<CheckedNode> nodes) {
  std::sort(nodes.begin(), nodes.end(), [](const CheckedNode& one, const CheckedNode& two) {
    return one.report.node < two.report.node;
  });
  return RunFindings(nodes).find();
}

}  // namespace distrun

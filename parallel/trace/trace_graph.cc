#include "distrun/trace_graph.h"

#include <algorithm>
#include <cctype>
#include <string_view>

namespace distrun {

namespace {

void append_nodes(const Argument& argument, std::vector<const Node*>& nodes) {
  if (const Node* const node = argument.node()) nodes.push_back(node);
  for (const Argument& one : argument.items()) append_nodes(one, nodes);
}

// Operators' names that are keywords or builtins of Python.
bool is_pythons(const std::string& name) {
  static const std::set<std::string_view> words = {
      "abs",     "all",    "and",      "any",    "as",     "assert", "bool",   "bytes",  "class",
      "complex", "def",    "del",      "device", "dict",   "else",   "except", "filter", "float",
      "for",     "format", "from",     "hash",   "hex",    "id",     "if",     "import", "in",
      "inf",     "input",  "int",      "is",     "iter",   "lambda", "len",    "list",   "map",
      "max",     "min",    "nan",      "next",   "not",    "open",   "or",     "pass",   "pow",
      "print",   "raise",  "range",    "repr",   "return", "round",  "set",    "slice",  "sum",
      "torch",   "try",    "tuple",    "type",   "while",  "with",   "yield",  "zip",    "object",
      "super",   "sorted", "reversed", "exit",   "eval",   "exec",   "global"};
  return words.contains(name);
}

// "mul_1" becomes {"mul", 1}; the number may be 0.
std::pair<std::string, int> without_number(const std::string& name) {
  const std::size_t digits = name.find_last_not_of("0123456789") + 1;
  if (digits == name.size() || digits < 2 || name[digits - 1] != '_' || name.size() - digits > 6) {
    return {name, 0};
  }
  return {name.substr(0, digits - 1), std::stoi(name.substr(digits))};
}

std::string with_dot(std::string name) {
  const std::size_t colons = name.find("::");
  return colons == std::string::npos ? name : name.replace(colons, 2, ".");
}

}  // namespace

const Node* Argument::node() const {
  const auto* node = std::get_if<const Node*>(&value_);
  return node == nullptr ? nullptr : *node;
}

const std::vector<Argument>& Argument::items() const {
  static const std::vector<Argument> none;
  const auto* list = std::get_if<List>(&value_);
  return list == nullptr ? none : list->items;
}

TensorFacts TensorFacts::of(const at::Tensor& tensor) {
  const bool is_strided = tensor.layout() == at::kStrided;
  return {.sizes = tensor.sizes().vec(),
          .strides = is_strided ? tensor.strides().vec() : std::vector<std::int64_t>(),
          .dtype = tensor.scalar_type(),
          .device = tensor.device(),
          .layout = tensor.layout(),
          .is_conj = tensor.is_conj(),
          .is_neg = tensor.is_neg()};
}

std::vector<const Node*> Node::inputs() const {
  std::vector<const Node*> nodes;
  for (const Argument& one : args) append_nodes(one, nodes);
  for (const auto& [key, one] : kwargs) append_nodes(one, nodes);
  return nodes;
}

std::string Node::op_name() const { return op ? with_dot(op->name) : ""; }

const Node* Graph::find(const std::string& name) const {
  const auto found = std::find_if(nodes_.begin(), nodes_.end(),
                                  [&](const Node& node) { return node.name == name; });
  return found == nodes_.end() ? nullptr : &*found;
}

Node* Graph::add_placeholder(TensorFacts like) {
  const std::string name = "arg" + std::to_string(placeholders_++) + "_1";
  Node node{.kind = Node::Kind::kPlaceholder, .target = name};
  node.like = std::move(like);
  return insert(nodes_.end(), std::move(node), name);
}

Node* Graph::add_constant(at::Tensor tensor) {
  const std::string name = "_tensor_constant" + std::to_string(constants_++);
  Node node{.kind = Node::Kind::kGetAttr, .target = name};
  node.constant = std::move(tensor);
  return insert(nodes_.end(), std::move(node), name);
}

Node* Graph::add_call(c10::OperatorName op, std::vector<Argument> args,
                      std::vector<std::pair<std::string, Argument>> kwargs) {
  Node node{.args = std::move(args), .kwargs = std::move(kwargs), .op = std::move(op)};
  const std::string& overload = node.op->overload_name;
  node.target = "torch.ops." + node.op_name() + "." + (overload.empty() ? "default" : overload);
  const std::string name = node.op_name();
  return insert(nodes_.end(), std::move(node), name.substr(name.find('.') + 1));
}

Node* Graph::add_getitem(const Node* of, std::size_t index) {
  Node node{.target = "operator.getitem"};
  const auto number = static_cast<std::int64_t>(index);
  node.args = {Argument(of),
               Argument(Argument::Literal{.value = number, .text = std::to_string(number)})};
  return insert(nodes_.end(), std::move(node), "getitem");
}

Node* Graph::add_output(std::vector<Argument> results) {
  Node node{.kind = Node::Kind::kOutput, .target = "output"};
  node.args.emplace_back(Argument::List{.items = std::move(results)});
  return insert(nodes_.end(), std::move(node), "output");
}

void Graph::become_copy_of(const Node* node, at::Tensor tensor) {
  const Place place = places_.at(node);
  const std::string name = "_tensor_constant" + std::to_string(constants_++);
  Node constant{.kind = Node::Kind::kGetAttr, .target = name};
  constant.constant = std::move(tensor);
  Node* const added = insert(place, std::move(constant), name);

  place->op = c10::OperatorName("aten::lift_fresh_copy", "");
  place->target = "torch.ops.aten.lift_fresh_copy.default";
  place->name = unused_name("lift_fresh_copy");
  place->args = {Argument(added)};
  place->kwargs.clear();
  added->users = {node};
}

Node* Graph::insert(Place place, Node node, const std::string& name) {
  node.name = unused_name(name);
  const Place its = nodes_.insert(place, std::move(node));
  Node* const added = &*its;
  places_.emplace(added, its);
  for (const Node* const input : added->inputs()) {
    auto& users = places_.at(input)->users;
    if (users.empty() || users.back() != added) users.push_back(added);
  }
  return added;
}

std::string Graph::unused_name(const std::string& wanted) {
  std::string legal = wanted;
  std::replace_if(
      legal.begin(), legal.end(), [](unsigned char c) { return std::isalnum(c) == 0 && c != '_'; },
      '_');
  if (legal.empty() || std::isdigit(static_cast<unsigned char>(legal.front())) != 0) {
    legal.insert(0, 1, '_');
  }
  const auto [base, own] = without_number(legal);
  int number = own > 0 ? own : last_numbers_[base];
  std::string name = legal;
  while (names_.contains(name) || is_pythons(name)) name = base + "_" + std::to_string(++number);
  last_numbers_[base] = number;
  names_.insert(name);
  return name;
}

}  // namespace distrun

// Graph is what trace() has recorded (distrun/trace.h): a list of nodes in the order in which they
// ran, each with the values it was given and those who use its own.  As a torch.fx.Graph; it is
// only read, and lives as long as its Trace.
//
//     const Node* from = graph.output().args[0].items()[0].node();    // what was returned first
//     while (from->op_name() != "c10d.allreduce_") from = from->inputs().at(0);
//
//     for (const Node& node : graph.nodes()) names.push_back(node.name);
//
// Threads: any may read it.  From torch/fx/node.py and torch/fx/graph.py.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/operator_name.h>
#include <c10/util/intrusive_ptr.h>

namespace distrun {

struct Node;

// What a node is given in one place: a literal, another node's value, or a list of those.
class Argument {
 public:
  // A number, a string, a dtype, …, and how torch.fx prints it.
  struct Literal {
    c10::IValue value;
    std::string text = "None";
  };
  // A list that has values in it.
  struct List {
    std::vector<Argument> items;
    c10::TypePtr element_type;
  };
  // A c10d::ProcessGroup: the trace does not keep it.
  struct Group {
    std::string name;
    c10::weak_intrusive_ptr<c10::intrusive_ptr_target> process_group;
  };
  using Value = std::variant<Literal, const Node*, List, Group>;

  explicit Argument(Value value) : value_(std::move(value)) {}

  const Value& value() const { return value_; }
  // The node whose value it is; none: it is something else.
  const Node* node() const;
  // What is in a list; empty: it is none.
  const std::vector<Argument>& items() const;

 private:
  Value value_;
};

// What a tensor is, but for its values.
struct TensorFacts {
  std::vector<std::int64_t> sizes, strides;  // Without strides: it is not strided.
  c10::ScalarType dtype;
  c10::Device device;
  c10::Layout layout;
  bool is_conj, is_neg;

  static TensorFacts of(const at::Tensor& tensor);
  friend bool operator==(const TensorFacts&, const TensorFacts&) = default;
};

struct Node {
  // What runs, and what stands for a value: an input, and a tensor from outside of the function.
  enum class Kind { kPlaceholder, kGetAttr, kCallFunction, kOutput };

  Kind kind = Kind::kCallFunction;
  std::string name;  // "mul_1": no other node's of the graph.
  // Of a call "torch.ops.aten.mul.Scalar", or "operator.getitem": the n-th of several results.
  // Of other kinds "arg0_1", "_tensor_constant0", "output".
  std::string target;
  // As they were given, but for defaults at the end.  Of the output: a list, what is returned.
  std::vector<Argument> args;
  std::vector<std::pair<std::string, Argument>> kwargs;  // In the schema's order.
  std::vector<const Node*> users;                        // Each once, in the order of the graph.

  // The operator that is called, none where that is no operator: {"aten::mul", "Scalar"}.
  std::optional<c10::OperatorName> op;
  // Of a kGetAttr: the tensor.
  at::Tensor constant;
  // Of a placeholder: what the tensor was like that the trace was made with.
  std::optional<TensorFacts> like;

  // The nodes whose values it is given, in the order in which they stand there.
  std::vector<const Node*> inputs() const;
  // "aten.mul"; empty where there is no operator.
  std::string op_name() const;
};

class Graph {
 public:
  Graph() = default;
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  const std::list<Node>& nodes() const { return nodes_; }
  const Node& output() const { return nodes_.back(); }  // The last one.
  const Node* find(const std::string& name) const;      // None: there is no such node.

  // For the recorder.  Each adds a node at the end.
  Node* add_placeholder(TensorFacts like);
  Node* add_constant(at::Tensor tensor);
  Node* add_call(c10::OperatorName op, std::vector<Argument> args,
                 std::vector<std::pair<std::string, Argument>> kwargs = {});
  Node* add_getitem(const Node* of, std::size_t index);
  Node* add_output(std::vector<Argument> results);

  // The call `node` becomes one that copies `tensor`, a constant.
  void become_copy_of(const Node* node, at::Tensor tensor);

 private:
  using Place = std::list<Node>::iterator;

  Node* insert(Place place, Node node, const std::string& name);
  // As torch.fx makes one: "mul", "mul_1", …, and none that Python has for something else.
  std::string unused_name(const std::string& wanted);

  std::list<Node> nodes_;
  std::unordered_map<const Node*, Place> places_;
  std::set<std::string> names_;
  std::map<std::string, int> last_numbers_;  // By what stands before the number.
  int placeholders_ = 0, constants_ = 0;
};

}  // namespace distrun

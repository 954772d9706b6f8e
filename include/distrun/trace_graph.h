// Graph is the recording that trace() creates (distrun/trace.h).  Like a torch.fx.Graph, it is a
// list of nodes in the order in which they ran.  Each node has its arguments and its users.  The
// users of a node are the nodes that use its value.  A Graph is read-only, and exists as long as
// its Trace.
//
//     const Node* from = graph.output().args[0].items()[0].node();    // The first returned value.
//     while (from->op_name() != "c10d.allreduce_") from = from->inputs().at(0);
//
//     for (const Node& node : graph.nodes()) names.push_back(node.name);
//
// Thread safety: any thread may read a Graph.
// PyTorch source: torch/fx/node.py, torch/fx/graph.py.
#pragma once

#if __cplusplus < 202002L
#error "distrun needs C++20: compile with -std=c++20"
#endif

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

// An argument of a node.  It is a literal, the value of another node, a list of arguments, or a
// group.
class Argument {
 public:
  // A constant, such as a number, a string or a dtype.
  struct Literal {
    c10::IValue value;          // The value.
    std::string text = "None";  // The value as torch.fx prints it.
  };
  // A list that contains a tensor, or the list of results of a kOutput.  A list of numbers is a
  // Literal instead.
  struct List {
    std::vector<Argument> items;  // The elements.
    c10::TypePtr element_type;    // The type of the elements.
  };
  // A c10d::ProcessGroup, which the trace does not keep alive.
  struct Group {
    std::string name;                                                  // The name in LibTorch.
    c10::weak_intrusive_ptr<c10::intrusive_ptr_target> process_group;  // The group.
  };
  // The value: a literal, the node whose value is the argument, a list, or a group.
  using Value = std::variant<Literal, const Node*, List, Group>;

  // Creates an argument with this value.
  explicit Argument(Value value) : value_(std::move(value)) {}

  // Returns the value.
  const Value& value() const { return value_; }
  // If the argument is the value of a node, returns this node.  For other arguments, returns null.
  const Node* node() const;
  // Returns the items of a List.  For other arguments, returns an empty list.
  const std::vector<Argument>& items() const;

 private:
  Value value_;
};

// The properties of a tensor, except its values.
struct TensorFacts {
  std::vector<std::int64_t> sizes, strides;  // Sparse tensors have no strides.
  c10::ScalarType dtype;                     // The element type.
  c10::Device device;                        // The device.
  c10::Layout layout;                        // Strided or a kind of sparse.
  bool is_conj, is_neg;                      // The conjugate and negative bits.

  // Returns the properties of `tensor`.
  static TensorFacts of(const at::Tensor& tensor);
  friend bool operator==(const TensorFacts&, const TensorFacts&) = default;
};

// A node of the graph: a value, and how this value is computed.
struct Node {
  // The kinds of nodes.
  enum class Kind {
    kPlaceholder,   // An input.
    kGetAttr,       // A tensor from outside the function.
    kCallFunction,  // A call.
    kOutput         // The result.
  };

  Kind kind = Kind::kCallFunction;  // The kind of this node.
  std::string name;                 // Such as "mul_1".  Unique in the graph.
  // What the node refers to.  For a call, this is "torch.ops.aten.mul.Scalar", for example, or
  // "operator.getitem" for one of several results.  For other kinds, this is "arg0_1",
  // "_tensor_constant0" or "output", for example.
  std::string target;
  // The arguments of the call.  Trailing arguments with default values are omitted.  A kOutput has
  // one argument, the list of the returned values.
  std::vector<Argument> args;
  std::vector<std::pair<std::string, Argument>> kwargs;  // In the order of the operator's schema.
  std::vector<const Node*> users;                        // Each user once, in the graph's order.

  // The operator that a kCallFunction calls, such as {"aten::mul", "Scalar"}.  It is empty for
  // "operator.getitem" and for other kinds.
  std::optional<c10::OperatorName> op;
  // The tensor of a kGetAttr.
  at::Tensor constant;
  // The properties that the tensor of a kPlaceholder had in the recording.
  std::optional<TensorFacts> like;

  // Returns the nodes whose values are arguments, in the order of the arguments.
  std::vector<const Node*> inputs() const;
  // Returns the name of the operator, such as "aten.mul".  If the node has no operator, returns "".
  std::string op_name() const;
};

// The graph: all nodes, in the order in which they ran.
class Graph {
 public:
  Graph() = default;
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  // Returns all nodes.
  const std::list<Node>& nodes() const { return nodes_; }
  // Returns the last node.
  const Node& output() const { return nodes_.back(); }
  // Returns the node with this name, or null if no node has this name.
  //
  // Cost: find() compares the name with the name of each node.
  const Node* find(const std::string& name) const;

  // For the recorder: appends an input.
  Node* add_placeholder(TensorFacts like);
  // For the recorder: appends a tensor from outside the function.
  Node* add_constant(at::Tensor tensor);
  // For the recorder: appends a call.
  Node* add_call(c10::OperatorName op, std::vector<Argument> args,
                 std::vector<std::pair<std::string, Argument>> kwargs = {});
  // For the recorder: appends the index-th result of a node.
  Node* add_getitem(const Node* of, std::size_t index);
  // For the recorder: appends the output.
  Node* add_output(std::vector<Argument> results);

  // For the recorder: adds `tensor` as a new constant, and makes `node` a copy of this constant
  // (aten::lift_fresh_copy).
  void become_copy_of(const Node* node, at::Tensor tensor);

 private:
  using Place = std::list<Node>::iterator;

  Node* insert(Place place, Node node, const std::string& name);
  // Names nodes as torch.fx does: "mul", "mul_1", ….  Avoids names that Python reserves.
  std::string unused_name(const std::string& wanted);

  std::list<Node> nodes_;
  std::unordered_map<const Node*, Place> places_;
  std::set<std::string> names_;
  std::map<std::string, int> last_numbers_;  // By the name before the number.
  int placeholders_ = 0, constants_ = 0;
};

}  // namespace distrun

#include "parallel/trace/trace_text.h"

#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <sstream>
#include <vector>

#include <ATen/core/jit_type.h>
#include <c10/core/Layout.h>
#include <c10/core/MemoryFormat.h>
#include <c10/core/ScalarType.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include "backends/group/collective_checks.h"
#include "common/text/words.h"

namespace distrun::internal {

namespace {

std::string joined(const std::vector<std::string>& parts) {
  std::string all;
  for (const std::string& one : parts) all += (all.empty() ? "" : ", ") + one;
  return all;
}

// Like Python's repr(): the shortest text that parses to the same number, with a point or an
// exponent.
std::string text_of_double(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number < 0 ? "-inf" : "inf";
  const double size = std::abs(number);
  const bool is_fixed = number == 0 || (size >= 1e-4 && size < 1e16);
  std::array<char, 64> buffer{};
  const auto end =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), number,
                    is_fixed ? std::chars_format::fixed : std::chars_format::scientific)
          .ptr;
  const std::string text(buffer.data(), end);
  return is_fixed && text.find('.') == std::string::npos ? text + ".0" : text;
}

std::string text_of_complex(c10::complex<double> number) {
  const auto part = [](double its) {
    const std::string text = text_of_double(its);
    return text.ends_with(".0") ? text.substr(0, text.size() - 2) : text;
  };
  std::string imaginary = part(number.imag()) + "j";
  if (number.real() == 0 && !std::signbit(number.real())) return imaginary;
  return "(" + part(number.real()) + (imaginary.front() == '-' ? "" : "+") + imaginary + ")";
}

std::string text_of_dtype(c10::ScalarType type) {
  static const std::map<c10::ScalarType, const char*> names = {{c10::kByte, "uint8"},
                                                               {c10::kChar, "int8"},
                                                               {c10::kShort, "int16"},
                                                               {c10::kInt, "int32"},
                                                               {c10::kLong, "int64"},
                                                               {c10::kHalf, "float16"},
                                                               {c10::kFloat, "float32"},
                                                               {c10::kDouble, "float64"},
                                                               {c10::kComplexHalf, "complex32"},
                                                               {c10::kComplexFloat, "complex64"},
                                                               {c10::kComplexDouble, "complex128"}};
  // Python's names differ only in case: "BFloat16", "Bool", "Float8_e5m2", …
  const auto found = names.find(type);
  return "torch." + (found == names.end() ? ascii_lower(c10::toString(type)) : found->second);
}

std::string text_of_layout(c10::Layout layout) {
  std::ostringstream text;
  text << layout;  // "Strided"
  return "torch." + ascii_lower(text.str());
}

std::string text_of_format(c10::MemoryFormat format) {
  switch (format) {
    case c10::MemoryFormat::Contiguous:
      return "torch.contiguous_format";
    case c10::MemoryFormat::Preserve:
      return "torch.preserve_format";
    case c10::MemoryFormat::ChannelsLast:
      return "torch.channels_last";
    case c10::MemoryFormat::ChannelsLast3d:
      return "torch.channels_last_3d";
    default:
      return "torch.memory_format";
  }
}

std::string text_of_int(std::int64_t number, const c10::Type& type) {
  switch (type.kind()) {
    case c10::TypeKind::ScalarTypeType:
      return text_of_dtype(static_cast<c10::ScalarType>(number));
    case c10::TypeKind::LayoutType:
      return text_of_layout(static_cast<c10::Layout>(number));
    case c10::TypeKind::MemoryFormatType:
      return text_of_format(static_cast<c10::MemoryFormat>(number));
    default:
      return std::to_string(number);
  }
}

std::string text_of_object(const c10::IValue& object) {
  if (object.type()->str().find("ReduceOp") == std::string::npos) return object.type()->str();
  return c10::str("ReduceOp.", name_of(*object.toCustomClass<c10d::ReduceOp>()));
}

std::string text_of(const Argument& argument);

std::string text_of_items(const std::vector<Argument>& items) {
  std::vector<std::string> parts;
  parts.reserve(items.size());
  for (const Argument& one : items) parts.push_back(text_of(one));
  return joined(parts);
}

std::string text_of(const Argument& argument) {
  struct Text {
    std::string operator()(const Argument::Literal& literal) const { return literal.text; }
    std::string operator()(const Node* node) const { return "%" + node->name; }
    std::string operator()(const Argument::List& list) const {
      return "[" + text_of_items(list.items) + "]";
    }
    std::string operator()(const Argument::Group& group) const {
      return "ProcessGroup(" + group.name + ")";
    }
  };
  return std::visit(Text(), argument.value());
}

std::string text_of_call(const Node& node) {
  const std::string comma = node.args.size() == 1 ? "," : "";
  std::vector<std::string> kwargs;
  for (const auto& [key, value] : node.kwargs) kwargs.push_back(key + ": " + text_of(value));
  return "call_function[target=" + node.target + "](args = (" + text_of_items(node.args) + comma +
         "), kwargs = {" + joined(kwargs) + "})";
}

// Values have no "%" here.
std::string text_of_output(const Node& node) {
  const auto& results = node.args.at(0).items();
  std::vector<std::string> parts;
  parts.reserve(results.size());
  for (const Argument& one : results) {
    parts.push_back(one.node() == nullptr ? text_of(one) : one.node()->name);
  }
  return "return (" + joined(parts) + (parts.size() == 1 ? ",)" : ")");
}

std::string text_of(const Node& node) {
  const std::string value =
      "%" + node.name + " : [num_users=" + std::to_string(node.users.size()) + "] = ";
  switch (node.kind) {
    case Node::Kind::kPlaceholder:
      return value + "placeholder[target=" + node.target + "]";
    case Node::Kind::kGetAttr:
      return value + "get_attr[target=" + node.target + "]";
    case Node::Kind::kCallFunction:
      return value + text_of_call(node);
    case Node::Kind::kOutput:
      break;
  }
  return text_of_output(node);
}

}  // namespace

std::string text_of(const Graph& graph) {
  std::string text = "graph():";
  for (const Node& node : graph.nodes()) text += "\n    " + text_of(node);
  return text;
}

std::string text_of(const c10::IValue& literal, const c10::Type& type) {
  if (const auto* optional = type.castRaw<c10::OptionalType>()) {
    return text_of(literal, *optional->getElementType());
  }
  if (literal.isNone()) return "None";
  if (literal.isBool()) return literal.toBool() ? "True" : "False";
  if (literal.isInt()) return text_of_int(literal.toInt(), type);
  if (literal.isDouble()) return text_of_double(literal.toDouble());
  if (literal.isComplexDouble()) return text_of_complex(literal.toComplexDouble());
  if (literal.isString()) return literal.toStringRef();
  if (literal.isDevice()) return literal.toDevice().str();
  if (literal.isGenerator()) return "Generator(" + literal.toGenerator().device().str() + ")";
  if (literal.isObject()) return text_of_object(literal);
  if (literal.isTensor()) return "None";  // An undefined tensor.
  if (!literal.isList()) return literal.type()->str();
  const auto* list = type.castRaw<c10::ListType>();
  std::vector<std::string> parts;
  for (const c10::IValue& one : literal.toListRef()) {
    parts.push_back(text_of(one, list == nullptr ? type : *list->getElementType()));
  }
  return "[" + joined(parts) + "]";
}

}  // namespace distrun::internal

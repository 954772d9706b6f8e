#include "common/crash/thrown.h"

#include <exception>
#include <string>
#include <typeinfo>

#include <cxxabi.h>

#include "common/text/demangle.h"

namespace distrun {

namespace {

std::string type_of_exception() {
  const std::type_info* type = abi::__cxa_current_exception_type();
  return type != nullptr ? demangled_type(type->name()) : "unknown exception";
}

std::string text_of_exception() {
  try {
    throw;
  } catch (const std::exception& error) {
    return error.what();
  } catch (const std::string& text) {
    return text;
  } catch (const char* text) {
    return text != nullptr ? text : "";
  } catch (...) {
    return "an exception without a text";
  }
}

}  // namespace

Thrown what_was_thrown() {
  Thrown thrown;
  if (std::current_exception() == nullptr) {
    thrown.message = "std::terminate: called without an exception";
  } else {
    thrown.message = type_of_exception() + ": " + text_of_exception();
  }
  while (thrown.message.ends_with('\n')) thrown.message.pop_back();
  // c10::Error ends its text with its own backtrace, whose first line has the file and line.
  const auto raised = thrown.message.find("\nException raised from ");
  if (raised != std::string::npos) {
    const auto end = thrown.message.find('\n', raised + 1);
    thrown.callstack = thrown.message.substr(raised + 1, end - raised - 1) + '\n';
    thrown.message.resize(raised);
  }
  return thrown;
}

}  // namespace distrun

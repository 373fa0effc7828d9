#include "core/trace/kernel_name.h"

namespace assay {

namespace {

// The name without a trailing balanced pair `open` … `close`.
std::string_view without_arguments(std::string_view name, char open, char close) {
  if (name.empty() || name.back() != close) return name;
  int depth = 0;
  for (std::size_t i = name.size(); i-- > 0;) {
    if (name[i] == close) ++depth;
    if (name[i] == open && --depth == 0) return name.substr(0, i);
  }
  return name;
}

} // namespace

std::string short_kernel_name(std::string_view name) {
  std::string_view rest = without_arguments(name, '(', ')');
  if (rest.size() == name.size() && name.find('<') == std::string_view::npos)
    return std::string(name); // "Memcpy HtoD", "aten::mm", a C kernel
  rest = without_arguments(rest, '<', '>');
  int depth = 0; // of template arguments in a qualifying namespace or class
  for (std::size_t i = rest.size(); i-- > 0;) {
    if (rest[i] == '>') ++depth;
    if (rest[i] == '<') --depth;
    if (depth == 0 && (rest[i] == ':' || rest[i] == ' ')) {
      rest = rest.substr(i + 1);
      break;
    }
  }
  return std::string(rest.empty() ? name : rest);
}

} // namespace assay

#include "app/assay/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

namespace assay::cli {

namespace {

bool has_unicode() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    return std::strstr(value, "UTF-8") != nullptr || std::strstr(value, "utf8") != nullptr;
  }
  return false;
}

} // namespace

TableStyle terminal_style(bool ascii, int width) {
  const bool terminal = ::isatty(STDOUT_FILENO) != 0;
  TableStyle style;
  winsize size{};
  if (terminal && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    style.width = size.ws_col;
  if (width > 0) style.width = width;
  style.unicode = !ascii && has_unicode();
  style.color = terminal && std::getenv("NO_COLOR") == nullptr;
  return style;
}

} // namespace assay::cli

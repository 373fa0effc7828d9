#include "experiments/plan/cell_name.h"

#include <fmt/ranges.h>
#include <utf8.h>

#include <algorithm>
#include <array>

#include "core/ledger/ledger.h"
#include "core/result.h"
#include "core/text.h"

namespace assay {

namespace {

struct Range {
  char32_t first, last;
};

// White space that looks like a space, and characters that show nothing (Unicode 15: White_Space,
// Default_Ignorable_Code_Point).
constexpr std::array<Range, 16> kUnseen{{{0x00A0, 0x00A0},
                                         {0x00AD, 0x00AD},
                                         {0x034F, 0x034F},
                                         {0x061C, 0x061C},
                                         {0x115F, 0x1160},
                                         {0x1680, 0x1680},
                                         {0x17B4, 0x17B5},
                                         {0x180B, 0x180F},
                                         {0x2000, 0x200F},
                                         {0x2028, 0x202F},
                                         {0x205F, 0x206F},
                                         {0x3000, 0x3000},
                                         {0x3164, 0x3164},
                                         {0xFE00, 0xFE0F},
                                         {0xFEFF, 0xFEFF},
                                         {0xE0000, 0xE0FFF}}};

bool has_unseen(const std::string& name) {
  for (auto at = name.begin(); at != name.end();) {
    const char32_t c = utf8::unchecked::next(at);
    if (std::any_of(kUnseen.begin(), kUnseen.end(), [c](const Range& range) {
          return range.first <= c && c <= range.last;
        }))
      return true;
  }
  return false;
}

} // namespace

std::string wrong_name(const std::string& name) {
  const std::string shown = printable(name);
  if (name.empty() || name.find_first_of("\t\n") != std::string::npos || name != shown ||
      name.front() == ' ' || name.back() == ' ')
    return "takes one line of text, not \"" + shown +
           "\": no control characters, and no spaces around it";
  if (name.find("  ") != std::string::npos || has_unseen(name))
    return "takes single plain spaces and visible characters only, not \"" + shown +
           "\": it would look like another name in print";
  return "";
}

std::string wrong_cell_name(const std::string& name) {
  if (const std::string wrong = wrong_name(name); !wrong.empty()) return wrong;
  if (name == kCauseDisturbed)
    return "cannot be \"" + name + "\", which `assay run --redo` takes for all disturbed launches";
  return "";
}

void require_cell(const std::string& option,
                  const std::string& name,
                  std::vector<std::string> cells,
                  const std::string& also) {
  if (!also.empty()) cells.insert(cells.begin(), also);
  // Results of several directories share names.
  std::vector<std::string> names;
  for (const std::string& cell : cells)
    if (std::find(names.begin(), names.end(), cell) == names.end()) names.push_back(cell);
  if (std::find(names.begin(), names.end(), name) != names.end()) return;
  const std::string meant = did_you_mean(name, names);
  if (!also.empty()) names.erase(names.begin());
  bad_input("{} {}: no such cell{}; cells are: {}{}",
            option,
            printable(name),
            printable(meant),
            printable(fmt::format("{}", fmt::join(names, ", "))),
            also.empty() ? "" : fmt::format("; `{}` is taken too", also));
}

} // namespace assay

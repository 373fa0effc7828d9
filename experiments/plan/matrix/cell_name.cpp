#include "experiments/plan/matrix/cell_name.h"

#include <fmt/ranges.h>
#include <utf8.h>

#include <algorithm>
#include <array>

#include "core/ledger/ledger.h"
#include "core/result.h"
#include "core/text.h"

namespace assay {

namespace {

struct CodePoints {
  char32_t first, last;
};

// Controls, white space that looks like a space, and characters that show nothing (Unicode 15:
// White_Space, Default_Ignorable_Code_Point).
constexpr std::array<CodePoints, 18> kUnseen{{{0x0000, 0x001F},
                                              {0x007F, 0x009F},
                                              {0x00A0, 0x00A0},
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

// The first character that does not show, as "U+202E", or "".
std::string unseen_in(const std::string& name) {
  for (auto at = name.begin(); at != name.end();) {
    const char32_t c = utf8::unchecked::next(at);
    if (std::any_of(kUnseen.begin(), kUnseen.end(), [c](const CodePoints& range) {
          return range.first <= c && c <= range.last;
        }))
      return fmt::format("U+{:04X}", static_cast<std::uint32_t>(c));
  }
  return "";
}

} // namespace

std::string wrong_name(const std::string& name) {
  if (name.empty() || !utf8::is_valid(name))
    return fmt::format("takes one line of UTF-8 text, not \"{}\"", one_line(printable(name)));
  if (const std::string unseen = unseen_in(name); !unseen.empty())
    return fmt::format("takes one line of visible characters, but \"{}\" contains {}, which does "
                       "not show in print",
                       one_line(printable(name)),
                       unseen);
  if (name.front() == ' ' || name.back() == ' ' || name.find("  ") != std::string::npos)
    return fmt::format("takes single spaces between words, not \"{}\"", name);
  if (name.size() > kLongestName)
    return fmt::format("takes at most {} bytes, not {}", kLongestName, name.size());
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

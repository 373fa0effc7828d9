#include "app/command_line/help.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <cstring>

#include "app/command_line/words.h"
#include "core/terminal_width.h"

namespace assay {

namespace {

constexpr std::size_t kWidestName = 28;  // of the left column; a longer name has a line of its own
constexpr std::size_t kLeastBeside = 60; // columns in which such names leave room for texts
constexpr std::size_t kManualColumns = 72; // of 80, by the indents of a man page

using Rows = std::vector<std::pair<std::string, std::string>>;

std::string two_columns(const Rows& rows, std::size_t width) {
  const std::size_t widest = width < kLeastBeside ? width / 4 : kWidestName;
  std::size_t left = 0;
  for (const auto& [name, text] : rows)
    if (name.size() <= widest) left = std::max(left, name.size());
  std::string out;
  for (const auto& [name, text] : rows) {
    std::string line = fmt::format("  {:<{}}  ", name, left);
    if (name.size() > left) line = fmt::format("  {}\n{:{}}", name, "", left + 4);
    out += line + wrap_text(text, width, left + 4) + "\n";
  }
  return out;
}

std::string option_label(const CLI::Option& option) {
  if (option.get_positional())
    return value_name(option) + (option.get_items_expected_max() > 1 ? "..." : "");
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  if (is_flag(option)) // its value is optional and follows "="
    return fmt::format(
        "{}{}",
        fmt::join(names, ", "),
        option.get_type_name().empty() ? "" : fmt::format("[={}]", option.get_type_name()));
  return fmt::format("{} {}", fmt::join(names, ", "), value_name(option));
}

std::string option_text(const CLI::Option& option) {
  std::string text = option.get_description();
  if (option.get_required() && !option.get_positional()) text += " (required)";
  if (!option.get_default_str().empty() && text.find("default") == std::string::npos)
    text += fmt::format(" (default: {})", option.get_default_str());
  return text;
}

std::vector<const CLI::Option*> shown_options(const CLI::App& app, bool positional) {
  std::vector<const CLI::Option*> found;
  for (const CLI::Option* option : app.get_options())
    if (!is_hidden(*option) && option->get_positional() == positional) found.push_back(option);
  return found;
}

std::string commands_text(const CLI::App& app, std::size_t width) {
  std::vector<std::string> groups;
  for (const CLI::App* command : commands_of(app))
    if (std::find(groups.begin(), groups.end(), command->get_group()) == groups.end())
      groups.push_back(command->get_group());
  std::string out;
  for (const std::string& group : groups) {
    Rows rows;
    for (const CLI::App* command : commands_of(app))
      if (command->get_group() == group)
        rows.emplace_back(command->get_name(), command->get_description());
    out += fmt::format("\n{}\n{}",
                       group == "Subcommands" ? "commands" : group, // CLI11's name for no group
                       two_columns(rows, width));
  }
  return out;
}

std::string options_text(const CLI::App& app, std::size_t width) {
  std::string out;
  for (const bool positional : {true, false}) {
    Rows rows;
    for (const CLI::Option* option : shown_options(app, positional))
      rows.emplace_back(option_label(*option), option_text(*option));
    if (!rows.empty()) out += (positional ? "\n" : "\noptions\n") + two_columns(rows, width);
  }
  return out;
}

bool begins_piece(const std::string& word) {
  return std::ranges::any_of(std::array{"-", "|", "&&", "<"},
                             [&](const char* mark) { return word.starts_with(mark); });
}

bool is_quote_open(const std::string& text) {
  return std::ranges::count(text, '\'') % 2 != 0;
}

} // namespace

std::string wrap_command(const std::string& line, std::size_t width) {
  std::vector<std::string> pieces; // an option with its values
  for (const std::string& word : CLI::detail::split(line.substr(line.find_first_not_of(' ')), ' '))
    if (pieces.empty() || (begins_piece(word) && !is_quote_open(pieces.back())))
      pieces.push_back(word);
    else
      pieces.back() += " " + word;
  std::string out = " ";
  std::size_t used = 1;
  for (const std::string& piece : pieces) {
    if (used > 1 && used + 1 + piece.size() + 2 > width) {
      out += " \\\n     ";
      used = 5;
    }
    out += " " + piece;
    used += 1 + piece.size();
  }
  return out;
}

namespace {

// A line of examples that is too long for the terminal breaks before the remark about its
// command.
std::string footer_text(const std::string& footer, std::size_t width) {
  std::string out;
  for (const std::string& line : CLI::detail::split(footer, '\n')) {
    const std::size_t text = line.find_first_not_of(' ', line.find("   ", 2));
    if (line.size() <= width)
      out += line + "\n";
    else if (text == std::string::npos)
      out +=
          (line.starts_with("  ") ? wrap_command(line, width) : wrap_text(line, width, 0)) + "\n";
    else
      out += wrap_command(line.substr(0, line.find("   ", 2)), width) + "\n      " +
             wrap_text(line.substr(text), width, 6) + "\n";
  }
  return out;
}

std::string help_text(const CLI::App& app, const std::string& path) {
  const auto width = static_cast<std::size_t>(
      std::max(terminal_columns(STDOUT_FILENO, kUsualColumns), kLeastColumns));
  std::string out = wrap_text(app.get_description(), width, 0) + "\n\n";
  out += wrap_text(usage_line(app, path), width, 9) + "\n";
  out += commands_text(app, width) + options_text(app, width);
  if (!app.get_footer().empty()) out += "\n" + footer_text(app.get_footer(), width);
  return out;
}

std::string manual_section(const CLI::App& command, const std::string& path) {
  std::string out = fmt::format(".SS \"{}\"\n{}\n.PP\n{}\n",
                                path,
                                troff_text(command.get_description()),
                                troff_text(usage_line(command, path)));
  for (const bool positional : {true, false})
    for (const CLI::Option* option : shown_options(command, positional))
      if (option != command.get_help_ptr())
        out += fmt::format(".TP\n.B {}\n{}\n",
                           troff_text(option_label(*option)),
                           troff_text(option_text(*option)));
  if (!command.get_footer().empty()) out += ".PP\n" + manual_examples(command.get_footer());
  return out;
}

} // namespace

int terminal_columns(int stream, int otherwise) {
  if (const char* text = std::getenv("COLUMNS"); text != nullptr) {
    int columns = 0;
    const auto [end, code] = std::from_chars(text, text + std::strlen(text), columns);
    if (code == std::errc() && *end == '\0' && columns > 0) return columns;
  }
  const auto width_of = [](int descriptor) {
    winsize size{};
    return ::ioctl(descriptor, TIOCGWINSZ, &size) == 0 ? static_cast<int>(size.ws_col) : 0;
  };
  if (const int columns = width_of(stream); columns > 0) return columns;
  // A pager shows a pipe on the terminal that messages go to.
  struct stat status {};
  if (::fstat(stream, &status) == 0 && S_ISFIFO(status.st_mode))
    if (const int columns = width_of(STDERR_FILENO); columns > 0) return columns;
  return otherwise;
}

std::string wrap_text(const std::string& text, std::size_t width, std::size_t indent) {
  const auto columns = [](const std::string& word) {
    return static_cast<std::size_t>(
        std::count_if(word.begin(), word.end(), [](char c) { return (c & 0xC0) != 0x80; }));
  };
  std::string out;
  std::size_t used = indent, at = 0;
  while (at < text.size()) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    const std::string word = text.substr(at, end - at);
    at = end + 1;
    if (!out.empty() && used + 1 + columns(word) > width) {
      out += "\n" + std::string(indent, ' ');
      used = indent;
    } else if (!out.empty()) {
      out += " ";
      ++used;
    }
    out += word;
    used += columns(word);
  }
  return out;
}

std::string manual_examples(const std::string& footer) {
  std::string text = footer_text(footer, kManualColumns);
  while (text.ends_with('\n')) text.pop_back();
  return fmt::format(".nf\n{}\n.fi\n", troff_text(text));
}

std::string usage_line(const CLI::App& app, const std::string& path) {
  std::string line = "usage: " + path;
  if (!commands_of(app).empty()) return line + " COMMAND";
  for (const CLI::Option* option : shown_options(app, true))
    line +=
        option->get_required() ? " " + option_label(*option) : " [" + option_label(*option) + "]";
  for (const CLI::Option* option : shown_options(app, false))
    if (option->get_required())
      line += fmt::format(" {} {}", option->get_name(false, false), value_name(*option));
  return line + " [OPTIONS]";
}

void use_plain_help(CLI::App& app) {
  app.set_help_flag("-h,--help", "print this help");
  app.formatter_fn([](const CLI::App* command, const std::string& path, CLI::AppFormatMode) {
    return help_text(*command, path);
  });
}

// Of the UTF-8 letter at `i`, which then is its last byte; U+FFFD where it is none.
static std::uint32_t code_point(const std::string& text, std::size_t& i) {
  const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(text[at]); };
  const std::size_t more = byte(i) >= 0xF0 ? 3 : byte(i) >= 0xE0 ? 2 : byte(i) >= 0xC0 ? 1 : 0;
  if (more == 0 || i + more >= text.size()) return 0xFFFD;
  std::uint32_t code = byte(i) & (0x3FU >> more);
  for (std::size_t next = 0; next < more; ++next) code = code << 6 | (byte(++i) & 0x3FU);
  return code;
}

std::string troff_text(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool starts_line = i == 0 || text[i - 1] == '\n';
    if (starts_line && (text[i] == '.' || text[i] == '\'')) out += "\\&";
    if (text[i] == '\\')
      out += "\\e";
    else if (text[i] == '-')
      out += "\\-";
    else if ((text[i] & 0x80) == 0)
      out += text[i];
    else
      out += fmt::format("\\[u{:04X}]", code_point(text, i));
  }
  return out;
}

std::string manual_sections(const CLI::App& app) {
  if (commands_of(app).empty()) return manual_section(app, app.get_name());
  std::string out;
  for (const CLI::App* command : commands_of(app)) {
    if (command->get_prefix_command()) continue;
    const std::vector<const CLI::App*> inner = commands_of(*command);
    if (inner.empty()) out += manual_section(*command, "assay " + command->get_name());
    for (const CLI::App* one : inner)
      out += manual_section(*one, "assay " + command->get_name() + " " + one->get_name());
  }
  return out;
}

} // namespace assay

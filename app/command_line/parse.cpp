#include "app/command_line/parse.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <sstream>

#include "app/command_line/help.h"
#include "app/command_line/words.h"
#include "core/result.h"
#include "core/text.h"

namespace assay {

namespace {

WordWalk walk(const CLI::App& app, int argc, const char* const* argv) {
  WordWalk result(app);
  for (int i = 1; i < argc && result.unknown().empty(); ++i) result.take(argv[i]);
  return result;
}

bool takes_names(const CLI::App& command) {
  return std::ranges::any_of(command.get_options(),
                             [](const CLI::Option* option) { return option->get_positional(); });
}

// An option of commands that stands before any of them.
bool is_of_commands(const CLI::App& app, const std::string& word) {
  const std::string name = word.substr(0, word.find('='));
  return std::ranges::any_of(app.get_subcommands({}), [&](const CLI::App* command) {
    const std::vector<std::string> names = option_names(*command);
    return std::ranges::find(names, name) != names.end();
  });
}

void refuse_unknown(const WordWalk& walk) {
  const std::string& word = walk.unknown();
  if (word.empty()) return;
  if (is_option_word(word) && walk.command().get_parent() == nullptr &&
      is_of_commands(walk.command(), word))
    bad_input(
        "{0} is an option of a command, and stands behind it: {1} COMMAND {0}", word, walk.path());
  if (is_option_word(word))
    bad_input("unknown option {}{}; `{} --help` lists them{}",
              word,
              did_you_mean(word, option_names(walk.command())),
              walk.path(),
              takes_names(walk.command()) && !word.starts_with("--")
                  ? "; to pass a name that begins with '-', write -- before it"
                  : "");
  bad_input("unknown command '{}'{}; `{} --help` lists them",
            word,
            did_you_mean(word, command_names(walk.command())),
            walk.path());
}

// The parser would take "--json=no" for a number, and "--json=false" for none.
void refuse_flag_with_value(const WordWalk& walk) {
  const std::string& word = walk.flag_with_value();
  if (word.empty()) return;
  const std::size_t equals = word.find('=');
  bad_input("{0} takes no value, not '{1}': give {0} alone, or leave it out",
            word.substr(0, equals),
            word.substr(equals + 1));
}

// The parser would take the next word for the value, or the option's default.
void refuse_empty_value(const WordWalk& walk) {
  if (const std::string& word = walk.empty_value(); !word.empty())
    bad_input("{}: the value behind = is missing", word);
  if (const CLI::Option* option = walk.without_value())
    bad_input("the value of {} is missing: a variable of the shell may be unset",
              option->get_name());
}

void refuse_empty_name(const WordWalk& walk) {
  if (const CLI::Option* option = walk.empty_name())
    bad_input("{} is empty: a variable of the shell may be unset; {}",
              value_name(*option),
              usage_line(walk.command(), walk.path()));
}

std::string shown_name(const CLI::Option& option) {
  return option.get_positional() ? value_name(option) : option.get_name();
}

std::string path_of(const CLI::App& command) {
  const CLI::App* parent = command.get_parent();
  return parent == nullptr ? command.get_name() : path_of(*parent) + " " + command.get_name();
}

// Everything that is missing, at once.
void refuse_required(const CLI::App& command) {
  if (const auto commands = command_names(command); !commands.empty())
    bad_input("`{0}` needs a command: {1}\n  {2}\n  see `{0} --help`",
              path_of(command),
              fmt::join(commands, ", "),
              usage_line(command, path_of(command)));
  std::vector<const CLI::Option*> missing;
  for (const CLI::Option* option : command.get_options())
    if (option->get_required() && option->count() == 0) missing.push_back(option);
  if (!missing.empty()) refuse_missing(command, missing);
}

const CLI::Option* blamed(const CLI::App& command, const std::string& message) {
  const std::string name = message.substr(0, message.find(':'));
  return command.get_option_no_throw(name);
}

// "--csv excludes --json", and "--cell: At Most 1 required but received 2", in words.
void refuse_too_much(const CLI::Option* option, const CLI::ParseError& error) {
  const std::string text = error.what();
  constexpr std::string_view kExcludes = " excludes ";
  const std::size_t at = text.find(kExcludes);
  if (dynamic_cast<const CLI::ExcludesError*>(&error) != nullptr && at != std::string::npos)
    bad_input("{} and {} exclude each other; give one",
              text.substr(0, at),
              text.substr(at + kExcludes.size()));
  if (option == nullptr || text.find(": At Most ") == std::string::npos) return;
  const int most = option->get_items_expected_max();
  bad_input("{} is given {} times; give it {}",
            shown_name(*option),
            option->count(),
            most == 1 ? "once" : fmt::format("at most {} times", most));
}

// A value that may be left out is joined to its option by "=".
void refuse_detached_value(const CLI::App& command, const std::string& word) {
  for (const CLI::Option* option : command.get_options())
    if (const auto& flags = option->get_fnames();
        option->count() > 0 && !flags.empty() &&
        option->results().front() == option->get_flag_value(flags.front(), "")) // none was joined
      bad_input("{0}: the value of {1} needs an equals sign: {1}={0}", word, shown_name(*option));
}

// CLI11's own words where they are plain.
[[noreturn]] void refuse(const WordWalk& walk, const CLI::ParseError& error) {
  const std::string text = error.what();
  if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) refuse_required(walk.command());
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr)
    if (const auto words = walk.command().remaining(); !words.empty()) {
      refuse_detached_value(walk.command(), words.front());
      bad_input("`{}` does not take '{}'; see `{} --help`",
                walk.path(),
                fmt::join(words, "' '"),
                walk.path());
    }
  constexpr std::string_view kConversion = "Could not convert: ";
  if (const std::size_t equals = text.find(" = ");
      text.starts_with(kConversion) && equals != std::string::npos)
    bad_input("{}: '{}' is not a number, or too large",
              text.substr(kConversion.size(), equals - kConversion.size()),
              text.substr(equals + 3));
  const CLI::Option* option = blamed(walk.command(), text);
  refuse_too_much(option, error);
  if (option == nullptr) bad_input("{}", text);
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr && text.ends_with(" missing"))
    bad_input("{} {} needs its value: {}",
              shown_name(*option),
              value_name(*option),
              option->get_description());
  if (option->get_positional() && value_name(*option).find('|') != std::string::npos)
    bad_input("`{}`{}", walk.path(), text.substr(text.find(':') + 1));
  bad_input("{}{}", shown_name(*option), text.substr(text.find(':')));
}

} // namespace

void refuse_missing(const CLI::App& command, const std::vector<const CLI::Option*>& missing) {
  std::vector<std::string> names;
  std::string texts;
  for (const CLI::Option* option : missing) {
    const bool positional = option->get_positional();
    names.push_back(positional ? value_name(*option)
                               : fmt::format("{} {}", option->get_name(), value_name(*option)));
    texts += fmt::format("\n  {}: {}", names.back(), option->get_description());
  }
  bad_input("`{0}` needs {1}\n  {2}{3}\n  see `{0} --help`",
            path_of(command),
            fmt::join(names, " and "),
            usage_line(command, path_of(command)),
            texts);
}

bool parse_command_line(CLI::App& app, int argc, const char* const* argv) {
  if (argc == 1 && !command_names(app).empty()) {
    std::fputs(app.help().c_str(), stdout);
    return false;
  }
  const WordWalk words = walk(app, argc, argv);
  // Before the parser sees it, which takes the next word that is a command for the command.
  if (!words.unknown().empty() && !is_option_word(words.unknown())) refuse_unknown(words);
  if (words.unknown().empty()) {
    refuse_flag_with_value(words);
    refuse_empty_value(words);
    refuse_empty_name(words);
  }
  try {
    app.parse(argc, argv);
    return true;
  } catch (const CLI::CallForVersion& asked) {
    fmt::print("{}\n", asked.what()); // a stream would forget why it cannot write
    return false;
  } catch (const CLI::Success& asked) {
    std::ostringstream text;
    app.exit(asked, text, text);
    fmt::print("{}", text.str());
    return false;
  } catch (const CLI::ParseError& error) {
    refuse_unknown(words);
    refuse(words, error);
  }
}

} // namespace assay

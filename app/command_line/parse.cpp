#include "app/command_line/parse.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>

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

void refuse_unknown(const WordWalk& walk) {
  const std::string& word = walk.unknown();
  if (word.empty()) return;
  if (is_option_word(word))
    bad_input("unknown option {}{}; `{} --help` lists them",
              word,
              did_you_mean(word, option_names(walk.command())),
              walk.path());
  bad_input("unknown command '{}'{}; `{} --help` lists them",
            word,
            did_you_mean(word, command_names(walk.command())),
            walk.path());
}

std::string shown_name(const CLI::Option& option) {
  return option.get_positional() ? value_name(option) : option.get_name();
}

// Everything that is missing, at once.
void refuse_missing(const WordWalk& walk) {
  if (!command_names(walk.command()).empty())
    bad_input("no command given; `{} --help` lists them", walk.path());
  std::vector<std::string> missing;
  for (const CLI::Option* option : walk.command().get_options())
    if (option->get_required() && option->count() == 0)
      missing.push_back(fmt::format("{} ({})", shown_name(*option), option->get_description()));
  if (!missing.empty())
    bad_input(
        "`{}` needs {}; see `{} --help`", walk.path(), fmt::join(missing, " and "), walk.path());
}

const CLI::Option* blamed(const CLI::App& command, const std::string& message) {
  const std::string name = message.substr(0, message.find(':'));
  return command.get_option_no_throw(name);
}

// CLI11's own words where they are plain.
[[noreturn]] void refuse(const WordWalk& walk, const CLI::ParseError& error) {
  const std::string text = error.what();
  if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) refuse_missing(walk);
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr)
    if (const auto words = walk.command().remaining(); !words.empty())
      bad_input("`{}` does not take '{}'; see `{} --help`",
                walk.path(),
                fmt::join(words, "' '"),
                walk.path());
  constexpr std::string_view kConversion = "Could not convert: ";
  if (const std::size_t equals = text.find(" = ");
      text.starts_with(kConversion) && equals != std::string::npos)
    bad_input("{}: '{}' is not a number, or too large",
              text.substr(kConversion.size(), equals - kConversion.size()),
              text.substr(equals + 3));
  const CLI::Option* option = blamed(walk.command(), text);
  if (option == nullptr) bad_input("{}", text);
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr && text.ends_with(" missing"))
    bad_input("{} needs a value: {} ({})",
              shown_name(*option),
              value_name(*option),
              option->get_description());
  if (option->get_positional() && value_name(*option).find('|') != std::string::npos)
    bad_input("`{}`{}", walk.path(), text.substr(text.find(':') + 1));
  bad_input("{}{}", shown_name(*option), text.substr(text.find(':')));
}

} // namespace

bool parse_command_line(CLI::App& app, int argc, const char* const* argv) {
  if (argc == 1 && !command_names(app).empty()) {
    std::fputs(app.help().c_str(), stdout);
    return false;
  }
  const WordWalk words = walk(app, argc, argv);
  // Before the parser sees it, which takes the next word that is a command for the command.
  if (!words.unknown().empty() && !is_option_word(words.unknown())) refuse_unknown(words);
  try {
    app.parse(argc, argv);
    return true;
  } catch (const CLI::Success& asked) {
    app.exit(asked);
    return false;
  } catch (const CLI::ParseError& error) {
    refuse_unknown(words);
    refuse(words, error);
  }
}

} // namespace assay

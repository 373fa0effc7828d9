#include "app/command_line/words.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <utility>

namespace assay {

namespace {

const CLI::App* find_command(const CLI::App& app, const std::string& name) {
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    if (command->get_name() == name) return command;
  return nullptr;
}

std::string upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) {
    return static_cast<char>(std::toupper(c));
  });
  return text;
}

} // namespace

bool is_option_word(const std::string& word) {
  return word.size() > 1 && word[0] == '-' &&
         std::isdigit(static_cast<unsigned char>(word[1])) == 0;
}

bool is_flag(const CLI::Option& option) {
  return option.get_items_expected_max() == 0;
}

bool is_hidden(const CLI::App& command) {
  return command.get_group().empty();
}

bool is_hidden(const CLI::Option& option) {
  return option.get_group().empty();
}

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App* command) { return !is_hidden(*command); });
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : commands_of(app)) names.push_back(command->get_name());
  return names;
}

std::vector<std::string> option_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    if (is_hidden(*option)) continue;
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  }
  return names;
}

std::string value_name(const CLI::Option& option) {
  if (is_flag(option)) return "";
  static const std::map<std::string, std::string> plain_words{
      {"INT", "N"}, {"UINT", "N"}, {"FLOAT", "NUMBER"}, {"TEXT", "TEXT"}};
  std::string name = option.get_type_name();
  name = name.substr(0, name.find(':')); // the validators' text follows
  const auto plain = plain_words.find(name);
  if (plain == plain_words.end() && !name.empty()) return name;
  if (option.get_positional()) return upper(option.get_name(true));
  return plain == plain_words.end() ? "TEXT" : plain->second;
}

void WordWalk::take(const std::string& word) {
  if (forwarded()) return;
  if (const CLI::Option* option = std::exchange(awaiting_, nullptr)) { // its value
    if ((word.empty() || word == "--") && without_value_ == nullptr) without_value_ = option;
    return;
  }
  if (word == "--") {
    options_ended_ = true;
  } else if (is_option_word(word) && !options_ended_) {
    take_option(word);
  } else if (const CLI::App* command = find_command(*command_, word); command != nullptr) {
    command_ = command;
    path_ += " " + word;
    positionals_ = 0;
  } else if (!command_names(*command_).empty()) {
    if (unknown_.empty()) unknown_ = word;
  } else {
    if (word.empty() && empty_name_ == nullptr) empty_name_ = next_positional();
    ++positionals_;
  }
}

void WordWalk::take_option(const std::string& word) {
  const bool is_long = word.starts_with("--");
  const std::size_t equals = word.find('=');
  const std::string name = is_long ? word.substr(0, equals) : word.substr(0, 2);
  const CLI::Option* option = command_->get_option_no_throw(name);
  if (option == nullptr) {
    if (unknown_.empty()) unknown_ = name;
    return;
  }
  const bool holds_value = is_long ? equals != std::string::npos : word.size() > 2;
  if (!is_flag(*option) && !holds_value) awaiting_ = option;
  const bool bare = is_flag(*option) && option->get_type_name().empty();
  if (bare && is_long && holds_value && flag_with_value_.empty()) flag_with_value_ = word;
  if (!bare && is_long && equals + 1 == word.size() && empty_value_.empty()) empty_value_ = word;
}

const CLI::Option* WordWalk::next_positional() const {
  std::size_t before = positionals_;
  for (const CLI::Option* option : command_->get_options()) {
    if (!option->get_positional()) continue;
    if (option->get_items_expected_max() > 1 || before == 0) return option;
    --before;
  }
  return nullptr;
}

} // namespace assay

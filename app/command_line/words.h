// WordWalk: reads the words of a command line as the parser does, without its callbacks, to find at
// which command and option they have arrived.
#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace assay {

class WordWalk {
public:
  explicit WordWalk(const CLI::App& app) : command_(&app), path_(app.get_name()) {}

  void take(const std::string& word);

  const CLI::App& command() const { return *command_; }
  const std::string& path() const { return path_; } // "assay tokenizer train"
  // The option whose value comes next, or nullptr.
  const CLI::Option* awaiting() const { return awaiting_; }
  // The positional argument that the next word fills, or nullptr.
  const CLI::Option* next_positional() const;
  bool options_ended() const { return options_ended_; } // after "--"
  // Another program parses the rest ("assay train …").
  bool forwarded() const { return command_->get_prefix_command(); }
  // The first option or command that does not exist, or "".
  const std::string& unknown() const { return unknown_; }
  // The first "--json=yes" of a flag that takes no value, or "".
  const std::string& flag_with_value() const { return flag_with_value_; }
  // The first "--out=" of an option that takes a value, or "".
  const std::string& empty_value() const { return empty_value_; }
  // The first option whose value is "" or "--", or nullptr.
  const CLI::Option* without_value() const { return without_value_; }
  // The first positional argument given as "", or nullptr.
  const CLI::Option* empty_name() const { return empty_name_; }

private:
  void take_option(const std::string& word);

  const CLI::App* command_;
  std::string path_, unknown_, flag_with_value_, empty_value_;
  const CLI::Option *awaiting_ = nullptr, *empty_name_ = nullptr, *without_value_ = nullptr;
  std::size_t positionals_ = 0;
  bool options_ended_ = false;
};

bool is_option_word(const std::string& word); // "--out", "-o", not "-" or "-1"
bool is_flag(const CLI::Option& option);      // takes no value
bool is_hidden(const CLI::App& command);
bool is_hidden(const CLI::Option& option);
// Commands and options that a person may type, in order of definition.
std::vector<const CLI::App*> commands_of(const CLI::App& app);
std::vector<std::string> command_names(const CLI::App& app);
std::vector<std::string> option_names(const CLI::App& command); // "--out", "-o" …

// "DIR", "cpu|cuda", "N": the name of an option's value; "" for a flag.
std::string value_name(const CLI::Option& option);

} // namespace assay

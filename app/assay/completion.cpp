// `assay completion`: a bash completion script made from the parser itself.
#include <fmt/ranges.h>

#include <cstdio>

#include "app/assay/verbs.h"

namespace assay::cli {

namespace {

std::vector<std::string> option_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

void print_bash(const CLI::App& app) {
  std::vector<std::string> verbs;
  std::string cases;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    verbs.push_back(command->get_name());
    if (const std::vector<std::string> names = option_names(*command); !names.empty())
      cases += fmt::format("    {}) words=\"{}\" ;;\n", command->get_name(), fmt::join(names, " "));
  }
  fmt::print(R"(# bash completion of assay; load with: source <(assay completion)
_assay() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" words=""
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W "{} {}" -- "$current"))
    return
  fi
  case "${{COMP_WORDS[1]}}" in
{}  esac
  case "$current" in
    -*) COMPREPLY=($(compgen -W "$words" -- "$current")) ;;
    *) COMPREPLY=($(compgen -f -- "$current")) ;;
  esac
}}
complete -o filenames -F _assay assay
)",
             fmt::join(verbs, " "),
             fmt::join(option_names(app), " "),
             cases);
}

} // namespace

void add_completion(CLI::App& app) {
  app.add_subcommand("completion", "print a bash completion script: source <(assay completion)")
      ->callback([&app] { print_bash(app); });
}

} // namespace assay::cli

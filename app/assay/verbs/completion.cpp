// `assay completion`: scripts for shells. What they offer comes from the hidden `assay complete`,
// which asks the parser itself.
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <ranges>

#include "app/assay/output/glossary.h"
#include "app/assay/programs.h"
#include "app/assay/verbs.h"
#include "app/assay/verbs/sql/sql_queries.h"
#include "app/command_line/assignments.h"
#include "app/command_line/complete.h"
#include "app/command_line/words.h"
#include "app/value_checks.h"
#include "core/files/shell_text.h"
#include "core/ledger/ledger.h"
#include "core/ledger/ledger_schema.h"
#include "experiments/plan/matrix/matrix.h"
#include "model/config/key_choices.h"
#include "model/config/optimization.h"

namespace assay::cli {

namespace {

using Words = std::vector<std::string>;

constexpr const char* kBash = R"sh(# bash completion of assay; load with: source <(assay completion)
_assay() {
  local IFS=$'\n' words line
  COMPREPLY=()
  words=("${COMP_WORDS[@]:1:COMP_CWORD}")
  local current="${words[-1]}" cut="" i=$(( ${#words[@]} - 1 ))
  # bash begins a word at = and at : and replaces that word alone
  if [[ $current == [=:] ]]; then current=""; else (( i-- )); fi
  for (( ; i > 0; i -= 2 )); do
    [[ ${words[i]} == [=:] ]] || break
    cut="${words[i-1]}${words[i]}$cut"
  done
  local path="${current#[\"\']}"
  path="${path//\\/}"
  while IFS= read -r line; do
    case "$line" in
      :files) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- "$path") ;;
      :directories) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -d -- "$path") ;;
      *)
        line="${line%%$'\t'*}"
        case "$current" in
          \'*) line="${line//\'/\'\\\'\'}" ;;
          \"*) line="$(sed 's/[\\"$`]/\\&/g' <<< "$line")" ;;
          *) printf -v line %q "$line"; line="${line//\\,/,}" ;;
        esac
        COMPREPLY+=("${line#"$cut"}") ;;
    esac
  done < <(assay complete --quoted "${words[@]}" 2>/dev/null)
  [[ ${COMPREPLY[0]} == *= ]] && compopt -o nospace
  return 0
}
complete -F _assay assay
)sh";

constexpr const char* kZsh = R"sh(#compdef assay
# zsh completion of assay; load with: source <(assay completion zsh), or save as _assay in fpath
_assay() {
  local line
  local -a found assay_keys
  for line in "${(@f)$(assay complete "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)}"; do
    case "$line" in
      :files) _files ;;
      :directories) _files -/ ;;
      *$'\t'*) found+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}") ;;
      *=) assay_keys+=("${line//:/\\:}") ;;
      ?*) found+=("${line//:/\\:}") ;;
    esac
  done
  (( $#found )) && _describe assay found
  (( $#assay_keys )) && _describe assay assay_keys -S ""
}
if [ "$funcstack[1]" = "_assay" ]; then _assay "$@"; else compdef _assay assay; fi
)sh";

constexpr const char* kFish =
    R"sh(# fish completion of assay; load with: assay completion fish | source
function __assay_complete
  set -l words (commandline -opc)
  set -l current (string unescape -- (commandline -ct | string collect))
  for line in (assay complete $words[2..-1] "$current" 2>/dev/null)
    switch $line
      case :files
        __fish_complete_path (commandline -ct)
      case :directories
        __fish_complete_directories (commandline -ct)
      case '*'
        echo $line
    end
  end
end
complete -c assay -f -a '(__assay_complete)'
)sh";

bool is_results(const std::string& word) {
  std::error_code ignored;
  return std::filesystem::exists(std::filesystem::path(word) / ledger_schema::kFileName, ignored);
}

// The results directory or the matrix that the words name, if they name one.
Words cell_names(const Words& words) {
  std::error_code ignored;
  Words names;
  for (const std::string& word : words | std::views::drop(1)) { // behind the verb
    if (is_results(word)) {
      if (const Result<LedgerData> data = read_ledger(word))
        for (const CellRow& cell : data->cells) names.push_back(cell.name);
    } else if (word.ends_with(".toml") && std::filesystem::is_regular_file(word, ignored)) {
      if (const Result<Matrix> matrix = load_matrix(word))
        for (const MatrixCell& cell : matrix->cells) names.push_back(cell.name);
    }
  }
  return names;
}

// That of `--cell`, else those with a trace, else all.
std::vector<const CellRow*> chosen_cells(const LedgerData& data, const Words& words) {
  std::string name;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--cell" && i + 1 < words.size()) name = words[i + 1];
    if (words[i].starts_with("--cell=")) name = words[i].substr(words[i].find('=') + 1);
  }
  std::vector<const CellRow*> named, traced, all;
  for (const CellRow& cell : data.cells) {
    all.push_back(&cell);
    if (cell.name == name) named.push_back(&cell);
    if (data.latest_launch(cell.id, LaunchKind::Traced, LaunchState::Complete) != nullptr)
      traced.push_back(&cell);
  }
  return !name.empty() ? named : !traced.empty() ? traced : all;
}

// Of the optimization, or of the cells of the results directory, that the words name.
Words level_names(const Words& words) {
  Words names;
  for (const std::string& word : words | std::views::drop(1)) { // behind the verb
    if (is_results(word)) {
      if (const Result<LedgerData> data = read_ledger(word))
        for (const CellRow* cell : chosen_cells(*data, words))
          for (const VariantRow& variant : data->variants)
            if (variant.cell == cell->id && variant.role != Role::Control &&
                std::find(names.begin(), names.end(), variant.name) == names.end())
              names.push_back(variant.name);
    } else if (const Optimization* row = optimizations().find(word); row != nullptr) {
      if (words.front() == "ab")
        for (const Level& level : row->levels) names.push_back(level.name);
    }
  }
  return names;
}

// What `help` explains: commands, `terms`, optimizations, keys, and terms. Of a term of several
// words the next one, but the whole rest for a word that contains spaces, since quotes are open
// there.
Words topics(const CLI::App& app, const Words& words) {
  auto first = words.begin() + 1;
  const bool only_terms = words.size() > 2 && *first == kTermsTopic;
  if (only_terms) ++first;
  std::string before;
  for (auto word = first; word + 1 < words.end(); ++word) before += *word + " ";
  Words names;
  if (before.empty() && !only_terms) {
    names = command_names(app);
    names.insert(names.end(), {kTermsTopic, kAllTopics});
    for (const Optimization& row : optimizations().all()) names.push_back(row.name);
    for (const ConfigKey& key : config_keys())
      if (!key.hidden) names.push_back(key.name);
  }
  const bool quoted = words.back().find(' ') != std::string::npos;
  for (const Term& term : glossary())
    for (const std::string& name : words_of(term)) {
      if (!name.starts_with(before)) continue;
      const std::string rest = name.substr(before.size());
      const std::string word = quoted ? rest : rest.substr(0, rest.find(' '));
      if (std::find(names.begin(), names.end(), word) == names.end()) names.push_back(word);
    }
  return names;
}

// "precision=fp32,bf16" for `ab` and `init`: a key, then each value once.
Words key_comparisons(const std::string& typed) {
  const std::size_t equals = typed.find('='), comma = typed.rfind(',');
  Words found = assignments(config_keys(), key_choices, "", typed);
  if (equals == std::string::npos || comma == std::string::npos) return found;
  const std::string earlier = typed.substr(0, comma + 1);
  const Words taken = CLI::detail::split(typed.substr(equals + 1, comma - equals - 1), ',');
  for (std::string& one : found) {
    const std::string value = one.substr(equals + 1);
    const bool again = std::find(taken.begin(), taken.end(), value) != taken.end();
    one = again ? "" : earlier + value;
  }
  std::erase(found, "");
  return found;
}

Words values_of(const CLI::App& app, const std::string& name, const Words& words) {
  Words values;
  if (name == "CELL") return cell_names(words);
  if (name == "LEVEL") return level_names(words);
  if (name == "PRESET") return preset_choices();
  if (name == "TOPIC") return topics(app, words);
  if (name == "OPTIMIZATION") {
    for (const Optimization& row : optimizations().all())
      if (!row.hidden) values.push_back(row.name);
    const Words keys = key_comparisons(words.back());
    values.insert(values.end(), keys.begin(), keys.end());
  }
  if (name == "NAME") // of `sql --name`
    for (const NamedQuery& query : named_queries()) values.emplace_back(query.name);
  if (name == "KEY=VALUE") return assignments(config_keys(), key_choices, "", words.back());
  if (name == "TABLE.KEY=VALUE") {
    values = assignments(config_keys(), key_choices, "base.", words.back());
    if (words.back().find('=') == std::string::npos)
      for (const std::string& setting : matrix_settings()) values.push_back(setting + "=");
  }
  return values;
}

void complete(const CLI::App& app, Words words) {
  if (!words.empty() && words.front() == "--quoted") { // bash gives words as they are typed
    words.erase(words.begin());
    for (std::string& word : words) word = without_quotes(word);
  }
  if (words.size() > 1)
    for (const CLI::App* command : commands_of(app)) {
      if (command->get_name() != words.front() || !command->get_prefix_command()) continue;
      const bool view = words.front() == "view";
      const char* program = view ? "assay-view" : "assay-worker";
      if (!find_program(program)) return;
      Words arguments{"--complete"};
      arguments.insert(arguments.end(), words.begin() + (view ? 1 : 0), words.end());
      exec_program(program_path(program), arguments);
    }
  fmt::print("{}", complete_words(app, words, [&](const std::string& name, const Words& typed) {
               return values_of(app, name, typed);
             }));
}

} // namespace

void add_completion(CLI::App& app, const std::vector<std::string>& command_line) {
  CLI::App* command =
      app.add_subcommand("completion", "print a completion script for bash, zsh or fish");
  auto shell = std::make_shared<std::string>("bash");
  one_of(command->add_option("shell", *shell, "which shell (default: bash)"),
         {"bash", "zsh", "fish"});
  command->callback([shell] {
    fmt::print("{}", *shell == "zsh" ? kZsh : *shell == "fish" ? kFish : kBash);
  });
  CLI::App* hidden = app.add_subcommand("complete", "what a shell may offer")->group("");
  hidden->prefix_command();
  hidden->set_help_flag();
  // As they were typed: the parser would keep a `--` for itself.
  const Words words(command_line.begin() + (command_line.empty() ? 0 : 1), command_line.end());
  hidden->callback([&app, words] { complete(app, words); });
}

} // namespace assay::cli

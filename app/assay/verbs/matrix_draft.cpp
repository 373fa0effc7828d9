#include "app/assay/verbs/matrix_draft.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "app/command_line/assignments.h"
#include "app/command_line/help.h"
#include "core/files/toml_text.h"
#include "core/result.h"
#include "core/text.h"
#include "model/config/key_choices.h"
#include "model/config/key_variants.h"
#include "model/config/optimization.h"
#include "model/config/train_config.h"

namespace assay::cli {

namespace {

using Settings = std::vector<std::pair<std::string, std::string>>; // key, TOML value

constexpr std::size_t kColumns = 100; // of a comment

std::string comment_lines(const std::string& text) {
  return "# " + CLI::detail::find_and_replace(wrap_text(text, kColumns - 2, 0), "\n", "\n# ") +
         "\n";
}

// The remark stands behind the line, or above one that has no room for it.
std::string with_remark(const std::string& line, const std::string& remark) {
  const std::string whole = line + " # " + remark;
  return whole.size() > kColumns ? comment_lines(remark) + line + "\n" : whole + "\n";
}

constexpr std::string_view kLastLine =
    "\n# Written by assay; `assay ab` may replace this file as long as nobody edits it: ";

std::string last_line(const std::string& text) {
  return fmt::format("{}{}\n", kLastLine, content_hash(text));
}

// A bare word is a string, as in --set.
std::string toml_value(const std::string& text) {
  char* end = nullptr;
  std::strtod(text.c_str(), &end);
  const bool number = *end == '\0' && std::isalpha(static_cast<unsigned char>(text[0])) == 0;
  const bool literal = text == "true" || text == "false" || text[0] == '"' || text[0] == '[';
  return number || literal ? text : toml_string(text);
}

std::string unquoted(const std::string& value) {
  const bool quoted = value.size() > 1 && value.front() == '"' && value.back() == '"';
  return quoted ? value.substr(1, value.size() - 2) : value;
}

// What is wrong with the options, in the words of the command line.
struct Mistakes {
  std::vector<std::string> texts;
  template <class... Args> void add(fmt::format_string<Args...> format, Args&&... args) {
    texts.push_back(fmt::format(format, std::forward<Args>(args)...));
  }
};

// What the parser of matrices would refuse. A list is left to it.
bool accepts(const std::string& assignment,
             const std::string& key,
             const std::string& value,
             Mistakes& mistakes) {
  if (value.starts_with("[")) return true;
  TrainConfig config;
  const Result<bool> done = set_key_text(config, key, unquoted(value));
  if (done) return true;
  if (const std::string why = why_not_plain(assignment); !why.empty())
    mistakes.add("{}", why);
  else
    mistakes.add("--set {}: {}", assignment, done.error().message);
  return false;
}

void set(Settings& settings, const std::string& assignment, Mistakes& mistakes) {
  const std::size_t equals = assignment.find('=');
  if (equals == 0 || equals == std::string::npos || equals + 1 == assignment.size())
    return mistakes.add("--set {}: write it as key=value, for example seq_len=256; `assay list "
                        "keys` shows all keys",
                        assignment);
  const std::string key = assignment.substr(0, equals),
                    value = toml_value(assignment.substr(equals + 1));
  if (!accepts(assignment, key, assignment.substr(equals + 1), mistakes)) return;
  const auto found = std::find_if(
      settings.begin(), settings.end(), [&](const auto& one) { return one.first == key; });
  if (found != settings.end())
    found->second = value;
  else
    settings.emplace_back(key, value);
}

// The family that an optimization needs, or the only one that has the preset.
std::string family_of(const MatrixDraft& draft, const Optimization& row) {
  const std::vector<std::string> families = families_with_preset(draft.preset);
  return row.family.empty() && families.size() == 1 ? families.front() : row.family;
}

constexpr std::string_view kOnCuda = "device=cuda"; // in `on_tiny` of what a GPU alone can run

constexpr std::string_view kPreset = "preset="; // in `on_tiny` of what `tiny` has not

// Where nobody chose one, the preset that has what the row switches.
std::string preset_of(const MatrixDraft& draft, const Optimization& row) {
  if (draft.preset != MatrixDraft().preset) return draft.preset;
  for (const std::string& one : CLI::detail::split(row.on_tiny, ' '))
    if (one.starts_with(kPreset)) return one.substr(kPreset.size());
  return draft.preset;
}

bool needs_gpu(const Optimization& row) {
  return row.on_tiny.starts_with(kOnCuda);
}

std::string device_of(const MatrixDraft& draft, const Optimization& row) {
  if (!draft.device.empty()) return draft.device;
  return needs_gpu(row) ? "cuda" : "cpu";
}

Settings settings_of(const MatrixDraft& draft, const Optimization& row, Mistakes& mistakes) {
  Settings settings;
  if (const std::string family = family_of(draft, row); !family.empty())
    set(settings, "family=" + family, mistakes);
  if (row.needs_ranks) set(settings, "ranks=2", mistakes);
  const std::string on_cuda = device_of(draft, row) == "cuda" ? " " + row.on_cuda : "";
  for (const std::string& one : CLI::detail::split(row.on_tiny + on_cuda, ' '))
    if (!one.empty() && one != kOnCuda && !one.starts_with(kPreset)) set(settings, one, mistakes);
  for (const std::string& one : draft.settings) set(settings, one, mistakes);
  std::map<std::string, std::string> set_by;
  const MatrixDraft unset;
  if (draft.data != unset.data) set_by.emplace("data", "--data");
  if (draft.preset != unset.preset) set_by.emplace("preset", "--preset");
  if (draft.device != unset.device) set_by.emplace("device", "--device");
  if (const std::string twice = why_set_twice(draft.settings, set_by); !twice.empty())
    mistakes.add("{}", twice);
  return settings;
}

bool is_training_key(const std::string& name) {
  return to_json(TrainConfig{}).contains(name);
}

// nullptr, and a mistake, where there is none.
const Optimization* find_row(const std::string& name, Mistakes& mistakes) {
  if (const Optimization* row = optimizations().find(name)) return row;
  std::vector<std::string> names;
  for (const Optimization& row : optimizations().all())
    if (!row.hidden) names.push_back(row.name);
  if (is_training_key(name))
    mistakes.add("{0} is a training key; compare values of it: assay ab {0}=BASELINE,CANDIDATE",
                 name);
  else
    mistakes.add(
        "unknown optimization '{}'{}; `assay list` shows them", name, did_you_mean(name, names));
  return nullptr;
}

void check_choice(const MatrixDraft& draft, const Optimization& row, Mistakes& mistakes) {
  std::vector<std::string> known;
  for (const Level& level : row.levels) known.push_back(level.name);
  if (draft.device == "cpu" && needs_gpu(row))
    mistakes.add("optimization '{}' runs on a GPU alone; leave out --device cpu", row.name);
  for (auto level = draft.levels.begin(); level != draft.levels.end(); ++level)
    if (std::find(draft.levels.begin(), level, *level) != level)
      mistakes.add("--levels names '{}' twice", *level);
    else if (row.level(*level) == nullptr)
      mistakes.add("{} has no level '{}'{}; it has: {}",
                   row.name,
                   *level,
                   did_you_mean(*level, known),
                   fmt::join(known, ", "));
  if (!draft.expect.empty())
    mistakes.add("--expect is for values of a key; {} has gates of its own", row.name);
}

void check_preset(const MatrixDraft& draft, const Settings& settings, Mistakes& mistakes) {
  TrainConfig config;
  config.preset = draft.preset;
  for (const auto& [key, value] : settings)
    if (key == "family" || key == "preset")
      (void)value_or_throw(set_key_text(config, key, unquoted(value))); // set() has tried it
  if (const Result<TrainConfig> resolved = resolve(config); !resolved)
    mistakes.add("{}", resolved.error().message);
}

// "levels = […]", as a comment where all are compared. The first of two or more is the baseline.
std::string levels_text(const MatrixDraft& draft, const Optimization& row) {
  std::vector<std::string> levels;
  const bool chosen = !draft.levels.empty();
  std::string text;
  if (draft.levels.size() > 1)
    text = fmt::format("reference = {} # the baseline\n", toml_string(draft.levels.front()));
  else
    text = fmt::format("# reference = {} # the baseline; this is the default\n",
                       toml_string(row.levels.front().name));
  if (chosen)
    for (std::size_t i = draft.levels.size() > 1 ? 1 : 0; i < draft.levels.size(); ++i)
      levels.push_back(toml_string(draft.levels[i]));
  else
    for (const Level& level : row.levels)
      if (&level != &row.levels.front() && !level.wrong) levels.push_back(toml_string(level.name));
  return text + fmt::format("{}levels = [{}] # the candidates{}\n",
                            chosen ? "" : "# ",
                            fmt::join(levels, ", "),
                            chosen ? "" : "; these are the default");
}

struct KeyValues {
  std::string key;
  std::vector<std::string> values; // the first is the baseline
};

// The row's levels that set the key to these values and nothing else; empty where one has no level.
std::vector<std::string> levels_of(const Optimization& row, const KeyValues& compared) {
  TrainConfig reference;
  row.levels.front().apply(reference);
  std::vector<std::string> levels;
  for (const std::string& value : compared.values) {
    TrainConfig by_key = reference;
    (void)value_or_throw(set_key_text(by_key, compared.key, value));
    const auto level = std::ranges::find_if(row.levels, [&](const Level& one) {
      TrainConfig by_level = reference;
      one.apply(by_level);
      return differing_keys(by_key, by_level).empty();
    });
    if (level == row.levels.end()) return {};
    levels.push_back(level->name);
  }
  return levels;
}

// Values that an optimization promises to be equal, or whose loader it counts, are compared by it.
void refuse_values_of_a_row(const std::string& text,
                            const KeyValues& compared,
                            Mistakes& mistakes) {
  for (const Optimization& row : optimizations().all()) {
    if (row.hidden) continue;
    if (row.equivalence > Equivalence::Math && row.unit != Unit::PipelineStep) continue;
    if (const std::vector<std::string> levels = levels_of(row, compared); !levels.empty())
      return mistakes.add("{0}: these values are levels of optimization {1}, which checks more: "
                          "assay ab {1} --levels {2}",
                          text,
                          row.name,
                          fmt::join(levels, ","));
  }
}

std::vector<std::string> names_of_levels(const Optimization& row) {
  std::vector<std::string> names;
  for (const Level& level : row.levels)
    if (!level.wrong) names.push_back(level.name);
  return names;
}

// Of an unknown key one mistake is enough.
void check_values(const std::string& text, const KeyValues& compared, Mistakes& mistakes) {
  std::set<std::string> told;
  for (auto value = compared.values.begin(); value != compared.values.end(); ++value) {
    TrainConfig config;
    if (value->empty())
      mistakes.add("{}: a value is empty", text);
    else if (std::find(compared.values.begin(), value, *value) != value)
      mistakes.add("{}: names {} twice", text, *value);
    else if (const Result<bool> done = set_key_text(config, compared.key, *value);
             !done && told.insert(done.error().message).second)
      mistakes.add("{}: {}", text, done.error().message);
  }
}

// "precision=fp32,bf16", or nothing where an optimization is named.
std::optional<KeyValues> key_values(const MatrixDraft& draft, Mistakes& mistakes) {
  const std::string& text = draft.optimization;
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos) return std::nullopt;
  KeyValues result{text.substr(0, equals), CLI::detail::split(text.substr(equals + 1), ',')};
  if (!draft.levels.empty())
    mistakes.add("{}: its values are what is compared; --levels is for an optimization", text);
  if (result.values.size() < 2)
    mistakes.add("{}: give the baseline and at least one candidate: {}=BASELINE,CANDIDATE",
                 text,
                 result.key);
  const Optimization* row = optimizations().find(result.key);
  if (TrainConfig scratch; row != nullptr && !to_json(scratch).contains(result.key)) {
    mistakes.add("{0}: {1} is an optimization, not a key: assay ab {1}, or assay ab {1} --levels "
                 "{2}",
                 text,
                 result.key,
                 fmt::join(names_of_levels(*row), ","));
    return result;
  }
  check_values(text, result, mistakes);
  if (mistakes.texts.empty()) refuse_values_of_a_row(text, result, mistakes);
  for (const std::string& setting : draft.settings)
    if (setting.starts_with(result.key + "="))
      mistakes.add("--set {}: {} is what is compared; leave it out", setting, result.key);
  return result;
}

// The keys of a cell that say what is compared, and the tables behind its other keys.
struct CellText {
  std::string keys, tables;
};

CellText text_of_levels(const MatrixDraft& draft, const Optimization& row) {
  return {fmt::format("optimization = {} # `assay list`\n", toml_string(row.name)) +
              levels_text(draft, row),
          ""};
}

// Steps of other tokens are compared by the time of a token.
// A value of some keys brings values of others with it, such as a preset's rows.
Unit unit_of(const MatrixDraft& draft, const KeyValues& compared) {
  std::set<std::string> keys{compared.key};
  std::optional<TrainConfig> first;
  for (const std::string& value : compared.values) {
    TrainConfig config;
    config.preset = draft.preset;
    (void)value_or_throw(set_key_text(config, compared.key, value));
    for (const std::string& setting : draft.settings)
      if (const std::size_t equals = setting.find('='); equals != std::string::npos)
        (void)set_key_text(config, setting.substr(0, equals), setting.substr(equals + 1));
    const Result<TrainConfig> resolved = resolve(config);
    if (!resolved) break; // the plan refuses it by name
    if (first) keys.merge(differing_keys(*first, *resolved));
    if (!first) first = *resolved;
  }
  if (!loader_keys(keys).empty()) return Unit::PipelineStep;
  return batch_keys(keys).empty() ? Unit::TrainStep : Unit::Token;
}

CellText text_of_values(const MatrixDraft& draft, const KeyValues& compared) {
  const Unit unit = unit_of(draft, compared);
  const std::string expect =
      draft.expect.empty()
          ? "# expect = \"objective\" # or statistical; [quality] shows what it does to the loss\n"
          : fmt::format("expect = {}\n", toml_string(draft.expect));
  std::string variants = "[cell.variants]\n";
  for (const std::string& value : compared.values)
    variants += fmt::format(
        "{} = {{ set = {{ {} = {} }} }}\n", toml_string(value), compared.key, toml_value(value));
  return {fmt::format("reference = {} # the baseline\n", toml_string(compared.values.front())) +
              expect +
              (unit == Unit::Token          ? "unit = \"token\" # a step takes other tokens\n"
               : unit == Unit::PipelineStep ? "unit = \"pipeline_step\" # with its loader\n"
                                            : ""),
          variants};
}

// A CPU run on every core would wait for whatever else the system does.
std::string threads_line(const std::string& device, const Settings& settings) {
  const bool given = std::any_of(
      settings.begin(), settings.end(), [](const auto& one) { return one.first == "threads"; });
  if (device != "cpu" || given) return "";
  return "threads = 1 # per rank; the other cores are left to the system; 0: every core\n";
}

// An optimization of the key's name has its own cell.
std::string cell_of_values(const std::string& key) {
  return optimizations().find(key) == nullptr ? key : key + "_values";
}

} // namespace

std::string comparison_name(const MatrixDraft& draft) {
  return draft.optimization.substr(0, draft.optimization.find('='));
}

Result<std::string> matrix_text(const MatrixDraft& given) {
  Mistakes mistakes;
  const std::optional<KeyValues> compared = key_values(given, mistakes);
  const Optimization* const known = compared ? nullptr : find_row(given.optimization, mistakes);
  MatrixDraft draft = given;
  if (known != nullptr) draft.preset = preset_of(given, *known);
  if (known != nullptr) check_choice(draft, *known, mistakes);
  Optimization row{}; // without a name where that is unknown
  if (known != nullptr) row = *known;
  if (compared && mistakes.texts.empty())
    row = key_row(cell_of_values(compared->key), Equivalence::Objective, unit_of(draft, *compared));
  const Settings settings = settings_of(draft, row, mistakes);
  check_preset(draft, settings, mistakes);
  if (!mistakes.texts.empty()) return fail("{}", fmt::join(mistakes.texts, "\n"));
  const std::string device = device_of(draft, row);
  const CellText cell = compared ? text_of_values(draft, *compared) : text_of_levels(draft, row);
  std::vector<std::string> keys;
  for (const auto& [key, value] : settings) keys.push_back(fmt::format("{} = {}", key, value));
  std::string text = comment_lines(fmt::format("{}: {}", row.name, row.summary));
  text += "# `assay plan FILE` shows what this file measures, `assay run FILE --out DIR` measures "
          "it.\n";
  text += "# All keys: docs/matrix.md. A line behind # is a default or a suggestion.\n"
          "version = 1\n\n";
  text +=
      fmt::format("[experiment]\nname = {}\nseed = 1\n"
                  "launches = {} # processes per cell; FASTER and SLOWER need {}, NO_EFFECT {}\n"
                  "# budget = \"25m\" # stop after this time; the same command continues\n\n",
                  toml_string(row.name),
                  draft.launches == "auto" ? toml_string(draft.launches) : draft.launches,
                  kFullLaunches,
                  kProvisionalLaunches);
  text += fmt::format(
      "[base] # training keys of every cell; `assay list keys` shows all\n"
      "preset = {} # `assay list presets`\ndevice = {} # cpu or cuda\n{}{}\n\n",
      toml_string(draft.preset),
      toml_string(device),
      threads_line(device, settings),
      draft.data.empty()
          ? "# data = \"corpus\" # directory of text files, text file or JSONL; or --data"
          : "data = " + toml_string(draft.data));
  text += fmt::format("[[cell]] # one comparison; add as many as you like\nname = {}\n",
                      toml_string(row.name));
  text += cell.keys;
  if (!keys.empty())
    text += with_remark(fmt::format("set = {{ {} }}", fmt::join(keys, ", ")),
                        "training keys of this cell alone");
  text += "# rounds = 40 # timed rounds per launch\n" + cell.tables;
  text += "\n[measure]\n"
          "# sesoi = \"1%\" # smallest effect of interest: below it a difference counts as none\n"
          "# alpha = 0.05 # how often a verdict may be false\n\n";
  if (row.unit != Unit::Token) // such a cell has no traces
    text += "[trace]\n"
            "rounds = 10 # traced rounds, by which `assay explain` finds the difference; 0: "
            "none\n\n";
  text +=
      "# [quality] # compare final losses too\n"
      "# seeds = 4\n# steps = 500\n# margin = 0.02 # nats per token that count as no difference\n";
  return text + last_line(text);
}

bool is_unedited_draft(const std::string& text) {
  const std::size_t end = text.rfind(kLastLine);
  return end != std::string::npos && text.substr(end) == last_line(text.substr(0, end));
}

} // namespace assay::cli

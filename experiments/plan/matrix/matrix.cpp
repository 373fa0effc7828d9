#include "experiments/plan/matrix/matrix.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <set>

#include "core/text.h"
#include "experiments/plan/matrix/cell_name.h"
#include "experiments/plan/matrix/key_comparison.h"
#include "experiments/plan/matrix/matrix_pairwise.h"
#include "experiments/plan/matrix/toml_reader.h"
#include "model/config/train_config.h"

namespace assay {

namespace {

constexpr std::int64_t kMost = 1'000'000;
constexpr double kGib = 1024.0 * 1024 * 1024;
constexpr double kLowestAlpha = 0.0001, kLargestAlpha = 0.2, kLowestPower = 0.5;

std::optional<int> small(TomlTable& table, const char* key, std::int64_t lowest = 1) {
  const auto value = table.integer(key, lowest, kMost);
  return value ? std::optional(static_cast<int>(*value)) : std::nullopt;
}

// A number, or "auto".
std::optional<int> launches(TomlTable& table) {
  const toml::node* node = table.node("launches");
  if (node == nullptr || !node->is_string()) return small(table, "launches");
  if (node->value<std::string>() == "auto") return kAutoLaunches;
  table.problems().add(node,
                       fmt::format("{} launches takes an integer or \"auto\", not {}",
                                   table.path(),
                                   printable(toml_to_json(*node).dump())));
  return std::nullopt;
}

void read_experiment(TomlTable& root, Matrix& matrix) {
  const toml::table* raw = root.table("experiment");
  if (raw == nullptr) return;
  TomlTable table(*raw, "[experiment]", root.problems());
  table.required("name", "name = \"NAME\"");
  if (const auto name = table.text("name")) {
    matrix.name = *name;
    if (const std::string wrong = wrong_name(*name); !wrong.empty())
      root.problems().add(table.node("name"), "[experiment] name " + wrong);
  }
  if (const auto seed = table.integer("seed", 0, std::numeric_limits<std::int64_t>::max()))
    matrix.seed = static_cast<std::uint64_t>(*seed);
  matrix.launches = launches(table).value_or(matrix.launches);
  if (const auto most = table.integer("max_launches", kFullLaunches, kMostLooked))
    matrix.max_launches = static_cast<int>(*most);
  if (const auto budget = table.text("budget", "a duration as \"10m\"")) {
    const Result<double> seconds = parse_duration(*budget);
    if (seconds)
      matrix.budget_seconds = *seconds;
    else
      root.problems().add(table.node("budget"), "[experiment] budget: " + seconds.error().message);
  }
  table.no_other_keys();
}

void read_measure(TomlTable& root, Matrix& matrix) {
  const toml::table* raw = root.table("measure");
  if (raw == nullptr) return;
  TomlTable table(*raw, "[measure]", root.problems());
  matrix.sesoi = table.share("sesoi");
  matrix.alpha = table
                     .share("alpha",
                            {.lowest = kLowestAlpha,
                             .highest = kLargestAlpha,
                             .highest_too = true,
                             .example = "0.05, or \"5%\"",
                             .meaning = ": it is how often a verdict may be false"})
                     .value_or(matrix.alpha);
  matrix.power =
      table
          .share("power",
                 {.lowest = kLowestPower,
                  .example = "0.8, or \"80%\"",
                  .meaning = ": it is the chance of detecting an effect as large as the MDE"})
          .value_or(matrix.power);
  matrix.rounds = small(table, "rounds");
  matrix.visit_steps = small(table, "visit_steps");
  matrix.discard_steps = small(table, "discard_steps", 0);
  if (const auto mode = table.text("interleave")) {
    const std::vector<std::string> modes{"auto", "twin", "turns", "launches"};
    const auto found = std::ranges::find(modes, *mode);
    if (found == modes.end())
      root.problems().add(
          table.node("interleave"),
          fmt::format("[measure] interleave takes auto, twin, turns or launches, not '{}'{}",
                      printable(*mode),
                      did_you_mean(*mode, modes)));
    else
      matrix.interleave = static_cast<Interleave>(found - modes.begin());
  }
  table.no_other_keys();
}

void read_limits(TomlTable& root, Matrix& matrix) {
  const toml::table* raw = root.table("limits");
  if (raw == nullptr) return;
  TomlTable table(*raw, "[limits]", root.problems());
  matrix.limits.steal = table.share("steal").value_or(matrix.limits.steal);
  matrix.limits.run_delay = table.share("run_delay").value_or(matrix.limits.run_delay);
  matrix.limits.pairs = table.share("pairs").value_or(matrix.limits.pairs);
  table.no_other_keys();
}

void read_energy(TomlTable& root, Matrix& matrix) {
  const toml::table* raw = root.table("energy");
  if (raw == nullptr) return;
  TomlTable table(*raw, "[energy]", root.problems());
  matrix.energy_rounds = small(table, "rounds", 0).value_or(kEnergyRounds);
  if (matrix.energy_rounds == 1)
    root.problems().add(table.node("rounds"),
                        "[energy] rounds must be 2 or more, or 0 for none, not 1: one pair of "
                        "visits has no interval");
  table.no_other_keys();
}

void read_trace(TomlTable& root, Matrix& matrix) {
  const toml::table* raw = root.table("trace");
  if (raw == nullptr) return;
  TomlTable table(*raw, "[trace]", root.problems());
  matrix.traced_rounds = small(table, "rounds", 0).value_or(matrix.traced_rounds);
  if (const auto gib = table.positive("max_gib")) matrix.trace_budget_bytes = *gib * kGib;
  table.no_other_keys();
}

// `table` over `defaults`. A margin belongs before the data, so seeds without one are a mistake.
LossSettings read_loss(TomlTable& table, LossSettings settings) {
  settings.seeds = small(table, "seeds", 0).value_or(settings.seeds);
  settings.steps = small(table, "steps").value_or(settings.steps);
  settings.every = small(table, "every").value_or(settings.every);
  settings.margin = table.positive("margin").value_or(settings.margin);
  settings.target = table.positive("target").value_or(settings.target);
  const auto add = [&](const std::string& message) {
    table.problems().add(&table.raw(), table.path() + ": " + message);
  };
  if (settings.seeds > 0 && settings.margin == 0 && !table.has("margin"))
    add(fmt::format(
        "seeds = {} needs a `margin`, the difference in nats per token that counts as none: "
        "it must be declared before there are losses",
        settings.seeds));
  if (settings.steps % settings.every != 0)
    add(fmt::format("every = {} does not divide steps = {}", settings.every, settings.steps));
  table.no_other_keys();
  return settings;
}

void read_quality(TomlTable& root, Matrix& matrix) {
  const toml::table* raw = root.table("quality");
  if (raw == nullptr) return;
  TomlTable table(*raw, "[quality]", root.problems());
  matrix.quality = read_loss(table, {});
}

// A cell without a name of its own has its optimization's, which the planner knows or refuses. A
// level is compared once.
void check_names(TomlTable& table, const MatrixCell& cell, bool named) {
  if (const std::string wrong = wrong_cell_name(cell.name); named && !wrong.empty())
    table.problems().add(table.node("name"), fmt::format("{} name {}", table.path(), wrong));
  std::set<std::string> seen;
  for (const std::string& level : cell.levels)
    if (!seen.insert(level).second)
      table.problems().add(
          table.node("levels"),
          fmt::format("{} levels contains '{}' more than once", table.path(), printable(level)));
}

std::map<std::string, std::string> places_of(const toml::table& raw, TomlProblems& problems) {
  std::map<std::string, std::string> places;
  for (const auto& [key, node] : raw) places.emplace(key.str(), problems.place(&node));
  if (const toml::array* levels = raw["levels"].as_array())
    for (const toml::node& level : *levels)
      places.emplace("levels/" + level.value_or(std::string()), problems.place(&level));
  for (const char* key : {"variants", "steps"})
    if (const toml::table* sides = raw[key].as_table())
      for (const auto& [name, node] : *sides)
        places.emplace(fmt::format("{}/{}", key, name.str()), problems.place(&node));
  return places;
}

MatrixCell read_cell(const toml::table& raw, const Matrix& matrix, TomlProblems& problems) {
  const std::string name = raw["name"].value_or(std::string());
  TomlTable table(raw,
                  name.empty() ? "[[cell]]"
                               : fmt::format("[[cell]] '{}'", one_line(printable(name))),
                  problems);
  MatrixCell cell;
  cell.where = problems.place(&raw);
  cell.places = places_of(raw, problems);
  const std::optional<std::string> optimization = table.text("optimization"),
                                   own_name = table.text("name");
  if (optimization && optimization->empty())
    problems.add(table.node("optimization"),
                 table.path() + " optimization takes a name of `assay list`, not \"\"");
  cell.optimization = optimization.value_or("");
  cell.name = own_name.value_or(cell.optimization);
  cell.reference = table.text("reference").value_or("");
  cell.levels = table.texts("levels");
  if (const toml::array* levels = raw["levels"].as_array(); levels != nullptr && levels->empty())
    problems.add(table.node("levels"),
                 table.path() + " levels names no level; leave it out to compare all");
  read_key_comparison(table, cell);
  check_names(table, cell, own_name.has_value());
  if (const toml::table* set = table.table("set")) cell.set = config_values(*set, problems);
  cell.rounds = small(table, "rounds");
  cell.visit_steps = small(table, "visit_steps");
  cell.discard_steps = small(table, "discard_steps", 0);
  cell.launches = launches(table);
  if (const toml::table* own = table.table("quality")) {
    TomlTable quality(*own, table.path() + " quality", problems);
    cell.quality = read_loss(quality, matrix.quality.value_or(LossSettings()));
  }
  table.no_other_keys();
  return cell;
}

// Sets a dotted key in the table, making tables on the way. The node that it made.
Result<const toml::node*> apply_override(toml::table& root, const std::string& text) {
  if (!is_utf8(text))
    return fail("--set {}: is not valid UTF-8; {}",
                escaped(text),
                text.starts_with("base.data=") || text.starts_with("base.tokenizer=")
                    ? "rename the file, or link to it under another name"
                    : "write it in UTF-8");
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0)
    return fail("--set {}: write it as key=value, for example base.seq_len=256", printable(text));
  const std::string value = text.substr(equals + 1);
  if (std::int64_t number = 0;
      std::from_chars(value.data(), value.data() + value.size(), number).ec ==
          std::errc::result_out_of_range &&
      value.find_first_not_of("0123456789", 1) == std::string::npos)
    return fail("--set {}: a number goes up to {}, not {}",
                printable(text.substr(0, equals)),
                std::numeric_limits<std::int64_t>::max(),
                value);
  // A bare word is a string: `base.precision=bf16`.
  toml::table parsed;
  try {
    parsed = toml::parse("value = " + value);
  } catch (const toml::parse_error&) {
    parsed.insert_or_assign("value", value);
  } catch (const TomlAssertion&) {
    parsed.insert_or_assign("value", value);
  }
  toml::table* table = &root;
  std::string key = text.substr(0, equals);
  for (std::size_t dot = key.find('.'); dot != std::string::npos; dot = key.find('.')) {
    const std::string head = key.substr(0, dot);
    key.erase(0, dot + 1);
    if (!table->contains(head)) table->insert(head, toml::table{});
    table = table->get(head)->as_table();
    if (table == nullptr)
      return fail("--set {}: '{}' is not a table; cells are changed through base.* or in the file",
                  printable(text),
                  head);
  }
  // Printed and parsed without a source, so that errors blame --set and not a line of the file.
  toml::node& node = *parsed.get("value");
  node.visit([&](auto& typed) {
    auto copy = typed;
    table->insert_or_assign(key, std::move(copy));
  });
  return std::as_const(*table).get(key);
}

void read_claims(TomlTable& root, Matrix& matrix) {
  const toml::table* raw = root.table("claims");
  if (raw == nullptr) return;
  TomlTable table(*raw, "[claims]", root.problems());
  matrix.claim_files = table.texts("files");
  if (const toml::node* files = table.node("files"); files != nullptr)
    matrix.claims_where = root.problems().place(files);
  table.no_other_keys();
}

void read_tables(TomlTable& root, Matrix& matrix) {
  root.required("version", "version = 1");
  root.required("experiment", "[experiment] and below it name = \"NAME\"");
  root.integer("version", 1, 1);
  read_experiment(root, matrix);
  if (const toml::table* base = root.table("base"))
    matrix.base = config_values(*base, root.problems());
  read_quality(root, matrix); // before the cells, which go over it
  for (const toml::table* cell : root.tables("cell"))
    matrix.cells.push_back(read_cell(*cell, matrix, root.problems()));
  expand_pairwise(root, matrix);
  read_measure(root, matrix);
  read_limits(root, matrix);
  read_trace(root, matrix);
  read_energy(root, matrix);
  read_claims(root, matrix);
  root.no_other_keys();
}

// The keys that the readers above ask for, by table: "[measure]".
std::map<std::string, std::set<std::string>> asked_keys() {
  const toml::table tables = toml::parse(
      "[experiment]\n[measure]\n[limits]\n[trace]\n[energy]\n[quality]\n[claims]\n[matrix]\n");
  TomlProblems problems;
  TomlTable root(tables, "the matrix", problems);
  Matrix nothing;
  read_tables(root, nothing);
  std::erase_if(problems.asked, [](const auto& table) { return !table.first.starts_with('['); });
  return problems.asked;
}

std::string setting(const std::string& path, const std::string& key) {
  return fmt::format("{}.{}", path.substr(1, path.size() - 2), key);
}

// The keys of a matrix and those of trainings.
std::map<std::string, std::vector<std::string>> homes_of_keys() {
  std::map<std::string, std::vector<std::string>> homes;
  for (const auto& [path, keys] : asked_keys())
    for (const std::string& key : keys) homes[key].push_back(setting(path, key));
  for (const ConfigKey& key : config_keys())
    if (!key.hidden) homes[key.name].push_back("base." + key.name);
  return homes;
}

} // namespace

const std::string& MatrixCell::place(std::initializer_list<std::string> keys) const {
  for (const std::string& key : keys)
    if (const auto found = places.find(key); found != places.end()) return found->second;
  return where;
}

std::vector<ConfigValue>
config_values(const toml::table& table, TomlProblems& problems, std::string_view skip) {
  std::vector<ConfigValue> values;
  for (const auto& [key, node] : table) {
    if (!skip.empty() && key.str() == skip) continue;
    ConfigValue value{std::string(key.str()),
                      toml_to_json(node),
                      problems.place(&node),
                      node.source().begin.line > 0};
    TrainConfig scratch;
    if (Result<bool> ok = set_key(scratch, value.key, value.value); !ok)
      problems.add(&node,
                   problems.homes.contains(value.key) && !to_json(scratch).contains(value.key)
                       ? fmt::format("'{}' is not a training key{}",
                                     value.key,
                                     problems.suggestion(value.key, {}))
                       : ok.error().message);
    values.push_back(std::move(value));
  }
  return values;
}

Result<Matrix> read_matrix(const MatrixText& from, std::vector<std::string>& wrong) {
  if (from.text.find_first_not_of(" \t\r\n") == std::string::npos)
    return fail("{}: is empty; `assay init` writes a matrix to begin with", from.file);
  Result<toml::table> parsed = parse_toml(from.text, from.file, from.line_name);
  if (!parsed) return parsed.error();
  TomlProblems problems;
  problems.file = from.file;
  problems.line_name = from.line_name;
  for (const std::string& change : from.overrides) {
    const Result<const toml::node*> made = apply_override(*parsed, change);
    if (made)
      problems.set_by[*made] = change;
    else
      problems.add_as_it_is(made.error().message);
  }
  problems.homes = homes_of_keys();
  TomlTable root(*parsed, "the matrix", problems);
  Matrix matrix;
  matrix.file = from.file;
  matrix.text = from.text;
  matrix.overrides = from.overrides;
  read_tables(root, matrix);
  if (matrix.cells.size() > kMostCells)
    return fail("{}: asks for {} cells, more than {} cells; divide it among several matrices",
                from.file,
                matrix.cells.size(),
                kMostCells);
  if (problems.messages.empty() && matrix.cells.empty())
    problems.add(nullptr,
                 "asks for nothing: give at least one [[cell]], or [matrix] with optimizations");
  wrong = problems.sorted();
  return matrix;
}

Result<Matrix> parse_matrix(const std::string& text,
                            const std::string& file,
                            const std::vector<std::string>& overrides) {
  std::vector<std::string> problems;
  Result<Matrix> matrix = read_matrix({text, file, overrides}, problems);
  if (matrix && !problems.empty()) return fail("{}", fmt::join(problems, "\n"));
  return matrix;
}

std::vector<std::string> matrix_settings() {
  std::vector<std::string> settings;
  for (const auto& [path, keys] : asked_keys())
    for (const std::string& key : keys) settings.push_back(setting(path, key));
  return settings;
}

Result<Matrix> load_matrix(const std::string& path, const std::vector<std::string>& overrides) {
  const Result<std::string> text = read_text_file(path);
  if (!text) return text.error();
  return parse_matrix(*text, text_file_name(path), overrides);
}

} // namespace assay

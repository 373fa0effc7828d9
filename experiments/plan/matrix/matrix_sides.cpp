#include <algorithm>
#include <cctype>

#include "core/ledger/ledger.h"
#include "core/text.h"
#include "experiments/plan/matrix/cell_name.h"
#include "experiments/plan/matrix/key_comparison.h"
#include "experiments/plan/matrix/matrix_pairwise.h"
#include "experiments/plan/matrix/toml_reader.h"
#include "model/config/key_variants.h"
#include "model/config/train_config.h"

namespace assay {

namespace {

std::string wrong_variant_name(const std::string& name) {
  return name == to_string(Role::Control)
             ? fmt::format("cannot be \"{}\", which the report calls the baseline's repetition",
                           name)
             : wrong_cell_name(name);
}

std::string wrong_name_of_step(const std::string& name) {
  const std::string wrong = wrong_step_name(name);
  return wrong.empty() ? wrong_variant_name(name) : wrong;
}

// "K=V\n" of each variable.
std::string read_environment(TomlTable& variant) {
  const toml::table* raw = variant.table("env");
  if (raw == nullptr) return "";
  std::string environment;
  for (const auto& [key, node] : *raw) {
    const std::string name(key.str());
    const bool named = !name.empty() && std::isdigit(static_cast<unsigned char>(name[0])) == 0 &&
                       std::ranges::all_of(name, [](unsigned char c) {
                         return c == '_' || (c < 0x80 && std::isalnum(c) != 0);
                       });
    const auto* value = node.as_string();
    if (!named)
      variant.problems().add(&node,
                             fmt::format("{} env: '{}' cannot name an environment variable",
                                         variant.path(),
                                         printable(name)));
    else if (value == nullptr || value->get().find('\n') != std::string::npos ||
             value->get().find('\0') != std::string::npos)
      variant.problems().add(
          &node, fmt::format("{} env: {} takes one line of text in quotes", variant.path(), name));
    else
      environment += fmt::format("{}={}\n", name, value->get());
  }
  return environment;
}

// `ranks = 2` stands for set = { ranks = 2 }: the processes of a variant are named beside its
// program.
void read_ranks(TomlTable& table, MatrixVariant& variant) {
  const toml::node* node = table.node("ranks");
  if (node == nullptr) return;
  const nlohmann::json value = toml_to_json(*node);
  TrainConfig scratch;
  if (const Result<bool> ok = set_key(scratch, "ranks", value); !ok)
    table.problems().add(node, fmt::format("{}: {}", table.path(), ok.error().message));
  else if (std::ranges::find(variant.set, "ranks", &ConfigValue::key) != variant.set.end())
    table.problems().add(node, table.path() + " has ranks twice: in its set, too");
  else
    variant.set.push_back({"ranks", value, table.problems().place(node)});
}

// What only a variant has: the environment, the ranks and the program of its own process.
void read_process(TomlTable& table, MatrixVariant& variant) {
  read_ranks(table, variant);
  variant.environment = read_environment(table);
  const std::optional<std::string> worker = table.text("worker");
  if (worker && worker->empty())
    table.problems().add(table.node("worker"),
                         table.path() + " worker takes the path of an assay-worker program");
  variant.worker = worker.value_or("");
}

// Tables are read by name; a person lists variants and steps in an order that means something.
// `key`: "variants" or "steps".
std::vector<MatrixVariant>
read_sides(TomlTable& cell, const std::string& key, std::string (*wrong_name)(const std::string&)) {
  const toml::table* raw = cell.table(key.c_str());
  if (raw == nullptr) return {};
  std::vector<std::pair<toml::source_position, MatrixVariant>> placed;
  for (const auto& [side, node] : *raw) {
    const std::string name(side.str());
    const toml::table* keys = node.as_table();
    if (const std::string wrong = wrong_name(name); !wrong.empty())
      cell.problems().add(&node, fmt::format("{} {}: a name {}", cell.path(), key, wrong));
    if (keys == nullptr) {
      cell.problems().add(&node,
                          fmt::format("{} {}: '{}' takes a table: {{ set = {{ KEY = VALUE }} }}",
                                      cell.path(),
                                      key,
                                      printable(name)));
      continue;
    }
    const std::string one = key.substr(0, key.size() - 1);
    TomlTable table(
        *keys, fmt::format("{} {} '{}'", cell.path(), one, printable(name)), cell.problems());
    MatrixVariant variant{name, {}, cell.problems().place(&node)};
    if (const toml::table* set = table.table("set"))
      variant.set = config_values(*set, cell.problems());
    if (key == "variants") read_process(table, variant);
    table.no_other_keys();
    placed.emplace_back(node.source().begin, std::move(variant));
  }
  std::ranges::stable_sort(
      placed, {}, [](const auto& one) { return std::pair(one.first.line, one.first.column); });
  std::vector<MatrixVariant> variants;
  for (auto& [position, variant] : placed) variants.push_back(std::move(variant));
  return variants;
}

// Whether an unknown key, which is named as such, was meant for this one.
bool misspells(const toml::table& table, const std::string& wanted) {
  return std::any_of(table.begin(), table.end(), [&](const auto& entry) {
    return closest(entry.first.str(), {wanted}) == wanted;
  });
}

// A problem of a cell, at its key or, without it, at the cell.
void add_problem(TomlTable& table, const char* key, const std::string& message) {
  table.problems().add(table.has(key) ? table.node(key) : &table.raw(),
                       table.path() + " " + message);
}

// What a design needs, and what is not for it.
void read_design(TomlTable& table, MatrixCell& cell) {
  cell.steps = read_sides(table, "steps", wrong_name_of_step);
  const std::optional<std::string> name = table.text("design");
  const auto add = [&](const char* key, const std::string& message) {
    add_problem(table, key, message);
  };
  std::vector<std::string> known;
  for (const Design design : {Design::Ladder, Design::Ablation, Design::Factorial}) {
    known.emplace_back(to_string(design));
    if (name == known.back()) cell.design = design;
  }
  if (name && !cell.design)
    add("design",
        fmt::format("design: '{}' is none of {}{}",
                    printable(*name),
                    fmt::join(known, ", "),
                    did_you_mean(*name, known)));
  if (table.has("steps") && !table.has("design"))
    add("steps", fmt::format("has `steps` and no `design`: {}", fmt::join(known, ", ")));
  if (table.has("design") && !table.has("steps"))
    add("design",
        "has a `design` and no steps: [cell.steps] names them, each { set = { KEY = VALUE } }");
  if (!table.has("steps")) return;
  if (table.has("reference"))
    add("reference", "has `reference`; the baseline of steps is the cell");
  if (const std::size_t steps = cell.steps.size();
      cell.design && (steps < kFewestSteps || steps > most_steps(*cell.design)))
    add("steps",
        fmt::format("steps: a {} takes {} to {}, not {}",
                    to_string(*cell.design),
                    kFewestSteps,
                    most_steps(*cell.design),
                    steps));
  std::size_t length = 0;
  for (const MatrixVariant& step : cell.steps) length += step.name.size() + 1;
  if (length > kLongestName)
    add("steps",
        fmt::format("steps: their names make one of {} characters, that of the whole stack; {} are "
                    "the most",
                    length,
                    kLongestName));
}

} // namespace

void read_key_comparison(TomlTable& table, MatrixCell& cell) {
  const auto add = [&](const char* key, const std::string& message) {
    add_problem(table, key, message);
  };
  cell.variants = read_sides(table, "variants", wrong_variant_name);
  read_design(table, cell);
  const char* given = table.has("variants") ? "variants" : table.has("steps") ? "steps" : nullptr;
  if (table.has("variants") && table.has("steps"))
    add("steps", "has `variants` and `steps`; give each a cell of its own");
  if (given && table.has("optimization"))
    add(given,
        fmt::format("has `optimization` and `{}`; it compares either a row of the table or sets of "
                    "keys",
                    given));
  if (!given && !table.has("design") && !table.has("optimization") &&
      !misspells(table.raw(), "optimization"))
    add("optimization",
        "needs `optimization`, or [cell.variants] or [cell.steps] with sets of training keys");
  if (given && !table.has("name")) add(given, "needs a `name`");
  if (given && table.has("levels"))
    add("levels", fmt::format("has `levels`; all of its `{}` are compared", given));
  if (table.has("variants") && cell.variants.size() < 2)
    add("variants", "variants: at least two are needed, a baseline and a candidate");
  if (!given)
    for (const char* key : {"expect", "unit"})
      if (table.has(key))
        add(key,
            fmt::format("{}: only [cell.variants] and [cell.steps] take it; an optimization brings "
                        "its own",
                        key));
  const auto read = [&](const char* key, auto parse, auto& into) {
    const std::optional<std::string> text = table.text(key);
    if (!text) return;
    if (const auto value = parse(*text))
      into = *value;
    else
      add(key, fmt::format("{}: {}", key, value.error().message));
  };
  read("expect", equivalence_named, cell.expect);
  read("unit", unit_named, cell.unit);
}

} // namespace assay

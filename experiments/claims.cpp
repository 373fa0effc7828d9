#include "experiments/claims.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "core/text.h"
#include "experiments/analysis/attribution.h"
#include "experiments/toml_reader.h"
#include "model/config/optimization.h"

namespace assay {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

const std::vector<std::string> kMetrics{"step_time", "throughput", "peak_memory", "unit_time"};

void read_gain(TomlTable& table, ClaimRow& claim) {
  const toml::node* gain = table.node("gain");
  const toml::array* range = gain == nullptr ? nullptr : gain->as_array();
  const std::optional<double> lo =
      range && range->size() == 2 ? range->get(0)->value<double>() : std::nullopt;
  const std::optional<double> hi =
      range && range->size() == 2 ? range->get(1)->value<double>() : std::nullopt;
  if (!lo || !hi || *lo > *hi || *lo <= -1 || *hi <= 0) {
    table.problems().add(
        gain,
        fmt::format("{} gain takes [lowest, highest] as shares, for example [0.10, 0.15]",
                    table.path()));
    return;
  }
  claim.lo = *lo;
  claim.hi = *hi;
  if (const auto direction = table.text("direction");
      direction != (claim.metric == "throughput" ? "more" : "less"))
    table.problems().add(&table.raw(),
                         fmt::format("{} direction must be \"{}\" for metric '{}'",
                                     table.path(),
                                     claim.metric == "throughput" ? "more" : "less",
                                     claim.metric));
}

// `requires` holds TrainConfig keys; a value, or an array of allowed values.
void read_requires(TomlTable& table, ClaimRow& claim) {
  json wanted = json::object();
  if (const toml::table* needs = table.table("requires")) {
    for (const auto& [key, value] : *needs) {
      const std::string name(key.str());
      const json allowed = toml_to_json(value);
      for (const json& one : allowed.is_array() ? allowed : json::array({allowed})) {
        TrainConfig scratch;
        if (Result<bool> ok = set_key(scratch, name, one); !ok)
          table.problems().add(&value,
                               fmt::format("{} requires: {}", table.path(), ok.error().message));
      }
      wanted[name] = allowed;
    }
  }
  claim.requires_json = wanted.dump();
}

std::vector<std::string> stage_words() { // "data_wait": as a TOML file spells them
  std::vector<std::string> words;
  for (const std::string_view name : kStageNames) {
    words.emplace_back(name);
    std::replace(words.back().begin(), words.back().end(), ' ', '_');
  }
  return words;
}

// Optional: stages of a step in which the gain is said to sit.
void read_stages(TomlTable& table, ClaimRow& claim) {
  const toml::node* node = table.node("stages");
  if (node == nullptr) return;
  const std::vector<std::string> words = stage_words();
  const toml::array* list = node->as_array();
  if (list == nullptr || list->empty())
    return table.problems().add(
        node,
        fmt::format("{} stages takes a list of stage names, for example [\"forward\"]",
                    table.path()));
  for (const toml::node& item : *list) {
    const std::string name = item.value<std::string>().value_or("");
    if (std::find(words.begin(), words.end(), name) == words.end())
      table.problems().add(&item,
                           fmt::format("unknown stage '{}'{}; stages are: {}",
                                       printable(name),
                                       did_you_mean(name, words),
                                       fmt::join(words, ", ")));
    claim.stages += (claim.stages.empty() ? "" : ",") + name;
  }
}

void check_levels(TomlTable& table, const ClaimRow& claim) {
  const Result<const Optimization*> row = optimizations().lookup(claim.optimization);
  if (!row) {
    table.problems().add(table.node("optimization"), row.error().message);
    return;
  }
  std::vector<std::string> names;
  for (const Level& level : (*row)->levels) names.push_back(level.name);
  for (const auto& [key, level] : {std::pair("from", claim.from), std::pair("to", claim.to)})
    if ((*row)->level(level) == nullptr)
      table.problems().add(table.node(key),
                           fmt::format("unknown level '{}' of optimization '{}'{}",
                                       printable(level),
                                       claim.optimization,
                                       did_you_mean(level, names)));
}

ClaimRow read_claim(const toml::table& raw, TomlProblems& problems) {
  TomlTable table(raw, "[[claim]]", problems);
  for (const char* key : {"id",
                          "optimization",
                          "from",
                          "to",
                          "text",
                          "source",
                          "metric",
                          "gain",
                          "direction",
                          "conditions"})
    table.required(key);
  ClaimRow claim;
  claim.id = table.text("id").value_or("");
  claim.optimization = table.text("optimization").value_or("");
  claim.from = table.text("from").value_or("");
  claim.to = table.text("to").value_or("");
  claim.text = table.text("text").value_or("");
  claim.source = table.text("source").value_or("");
  claim.metric = table.text("metric").value_or("");
  claim.conditions = table.text("conditions").value_or("");
  claim.unmet = table.text("unmet").value_or("");
  if (std::find(kMetrics.begin(), kMetrics.end(), claim.metric) == kMetrics.end())
    problems.add(table.node("metric"),
                 fmt::format("unknown metric '{}'{}",
                             printable(claim.metric),
                             did_you_mean(claim.metric, kMetrics)));
  read_gain(table, claim);
  read_requires(table, claim);
  read_stages(table, claim);
  check_levels(table, claim);
  table.no_other_keys();
  return claim;
}

void read_file(const std::string& path,
               std::vector<ClaimRow>& claims,
               std::vector<std::string>& errors) {
  const Result<std::string> text = read_text_file(path);
  if (!text) return errors.push_back(text.error().message);
  const Result<toml::table> parsed = parse_toml(*text, path);
  if (!parsed) return errors.push_back(parsed.error().message);
  TomlProblems problems{path, {}};
  TomlTable table(*parsed, "a claims file", problems);
  table.required("claim");
  for (const toml::table* claim : table.tables("claim"))
    claims.push_back(read_claim(*claim, problems));
  table.no_other_keys();
  errors.insert(errors.end(), problems.messages.begin(), problems.messages.end());
}

} // namespace

Result<std::vector<ClaimRow>> load_claim_files(const std::vector<std::string>& files) {
  std::vector<ClaimRow> claims;
  std::vector<std::string> errors;
  for (const std::string& file : files) read_file(file, claims, errors);
  std::set<std::string> ids;
  for (const ClaimRow& claim : claims)
    if (!ids.insert(claim.id).second)
      errors.push_back(fmt::format("claim id '{}' is used twice", printable(claim.id)));
  if (!errors.empty()) return fail("{}", fmt::join(errors, "\n"));
  return claims;
}

Result<std::vector<ClaimRow>> load_claims(const std::string& directory) {
  std::error_code error;
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(directory, error))
    if (entry.path().extension() == ".toml") files.push_back(entry.path().string());
  if (error)
    return fail("{}: the claims directory cannot be read ({})", directory, error.message());
  std::sort(files.begin(), files.end());
  return load_claim_files(files);
}

} // namespace assay

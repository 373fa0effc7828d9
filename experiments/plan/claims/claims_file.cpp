#include "experiments/plan/claims/claims_file.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <limits>
#include <map>
#include <optional>

#include "core/ledger/memory_parts.h"
#include "core/text.h"
#include "experiments/analysis/claims.h"
#include "experiments/attribution/attribution.h"
#include "experiments/plan/claims/document_checks.h"
#include "experiments/plan/matrix/key_comparison.h"
#include "experiments/plan/matrix/toml_reader.h"
#include "model/config/optimization.h"

namespace assay {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

// Named by sources and measured by no build yet: such a claim gives the reason in `unmet`.
const std::vector<std::string> kUnmeasured{"compute", "memory_traffic", "perplexity"};

std::vector<std::string> metric_names() {
  std::vector<std::string> names = kUnmeasured;
  for (const ClaimMetricRow& row : claim_metrics()) names.emplace_back(row.name);
  return names;
}

// Whether a gain is more of the metric; of time, memory or loss it is less.
bool grows(const std::string& metric) {
  return std::any_of(claim_metrics().begin(),
                     claim_metrics().end(),
                     [&](const ClaimMetricRow& row) { return row.name == metric && row.more; });
}

// The numbers of an array; empty where the node is none, or contains anything else.
std::vector<double> numbers_of(const toml::node* node) {
  std::vector<double> numbers;
  const toml::array* list = node == nullptr ? nullptr : node->as_array();
  if (list == nullptr) return numbers;
  for (const toml::node& item : *list) {
    if (!item.is_number()) return {};
    numbers.push_back(item.value_or(0.0));
  }
  return numbers;
}

std::string numbers_text(const toml::node& node) { // JSON has no inf and no nan
  const std::vector<double> numbers = numbers_of(&node);
  return numbers.empty() ? printable(toml_to_json(node).dump())
                         : fmt::format("[{}]", fmt::join(numbers, ", "));
}

// An upper end of infinity is none; [-0.02, 0] is a cost of at most 2 %. Comparisons with NaN are
// false.
bool is_gain(const std::vector<double>& range, bool reduction) {
  if (range.size() != 2) return false;
  const double lo = range[0], hi = range[1];
  const double most = reduction ? 1 : std::numeric_limits<double>::infinity();
  const bool says_something = 0 < hi || (lo < 0 && hi == 0);
  return -1 < lo && lo < most && lo <= hi && says_something && (hi < most || std::isinf(hi));
}

void read_gain(TomlTable& table, ClaimRow& claim) {
  const bool reduction = !grows(claim.metric);
  const toml::node* gain = table.node("gain");
  const std::vector<double> range = numbers_of(gain);
  if (gain == nullptr) {
    // the missing key is reported already
  } else if (is_gain(range, reduction)) {
    claim.lo = range[0];
    claim.hi = range[1];
  } else {
    table.problems().add(
        gain,
        fmt::format("{} gain takes [lowest, highest] as shares{}, for example [0.10, 0.15], or "
                    "[0.0, inf] for a claim without a figure{}",
                    table.path(),
                    reduction ? " below 1, for nothing becomes smaller by more than itself" : "",
                    ", not " + numbers_text(*gain)));
  }
  const char* direction = reduction ? "less" : "more";
  if (table.has("direction") && table.text("direction") != direction)
    table.problems().add(
        &table.raw(),
        fmt::format(
            "{} direction must be \"{}\" for metric '{}'", table.path(), direction, claim.metric));
}

// What they may contain depends on a key that is missing, which is reported already.
void ignore_keys(TomlTable& table) {
  for (const auto& [key, value] : table.raw()) table.node(std::string(key.str()).c_str());
}

// The phases of memory that the claim is about.
void read_phases(TomlTable& table, ClaimRow& claim) {
  const std::vector<std::string> phases = table.texts("of");
  if (!table.has("of")) return;
  std::vector<std::string> known;
  for (const MemoryPhase& phase : kMemoryPhases) known.emplace_back(phase.name);
  for (const std::string& phase : phases)
    if (std::ranges::find(known, phase) == known.end())
      table.problems().add(table.node("of"),
                           fmt::format("{} of: '{}' is no phase of memory{}; phases are {}",
                                       table.path(),
                                       printable(phase),
                                       did_you_mean(phase, known),
                                       fmt::join(known, ", ")));
  if (claim.metric != "peak_memory")
    table.problems().add(table.node("of"),
                         fmt::format("{} of belongs to metric \"peak_memory\", not \"{}\"",
                                     table.path(),
                                     claim.metric));
  claim.of = fmt::format("{}", fmt::join(phases, ","));
}

void read_metric(TomlTable& table, ClaimRow& claim) {
  for (const char* key : {"metric", "gain", "direction"}) table.required(key);
  claim.metric = table.text("metric").value_or("");
  if (!table.has("metric")) return ignore_keys(table);
  const std::vector<std::string> known = metric_names();
  if (std::find(known.begin(), known.end(), claim.metric) == known.end())
    table.problems().add(table.node("metric"),
                         fmt::format("unknown metric '{}'{}",
                                     printable(claim.metric),
                                     did_you_mean(claim.metric, known)));
  else if (!claim_metric(claim.metric) && claim.unmet.empty())
    table.problems().add(table.node("metric"),
                         fmt::format("{}: metric '{}' cannot be measured; state that in `unmet`",
                                     table.path(),
                                     claim.metric));
  read_gain(table, claim);
  read_phases(table, claim);
}

// kind = "setting": what a source recommends without a gain that could be tested.
void read_kind(TomlTable& table, ClaimRow& claim) {
  const std::optional<std::string> kind = table.text("kind");
  if (kind && *kind != kSetting)
    table.problems().add(table.node("kind"),
                         fmt::format("{} kind takes \"{}\", not \"{}\"; a claim of a gain has none",
                                     table.path(),
                                     kSetting,
                                     printable(*kind)));
  if (kind != kSetting) return read_metric(table, claim);
  claim.metric = kSetting;
  claim.hi = std::numeric_limits<double>::infinity();
}

// Against a condition that no result can meet, or that the claim itself breaks.
void check_requirement(TomlTable& table,
                       const ClaimRow& claim,
                       const std::string& key,
                       const json& allowed,
                       const toml::node& where) {
  const auto add = [&](const std::string& message) {
    table.problems().add(&where, fmt::format("{} requires: {}", table.path(), message));
  };
  if (allowed.is_array() && allowed.empty())
    add(fmt::format("key '{}' allows no value at all, so no run could meet it; name some, or leave "
                    "the key out",
                    printable(key)));
  if (names_keys(claim) && json::parse(claim.from).contains(key))
    add(fmt::format("'{}' is a key of `from` and `to`", printable(key)));
  const Result<const Optimization*> row = optimizations().lookup(claim.optimization);
  if (row && switched_keys(**row).contains(key))
    add(fmt::format("optimization '{1}' switches '{0}'; name its levels in `from` and `to`",
                    printable(key),
                    claim.optimization));
}

Result<bool> check_value(const std::string& key, const json& value) {
  if (key == kBoardKey) {
    if (value.is_string() && !value.get<std::string>().empty()) return true;
    return fail("gpu takes a part of the board's name, for example \"PCI\"");
  }
  if (key == kPaddingKey) {
    const auto share = [&](const char* end) {
      return value.is_object() && value.contains(end) && value[end].is_number()
                 ? value[end].get<double>()
                 : -1;
    };
    if (value.is_object() && value.size() == 2 && share("min") >= 0 &&
        share("min") <= share("max") && share("max") <= 1)
      return true;
    return fail("padding_share takes {{ min = 0.05, max = 0.15 }}, shares from 0 to 1");
  }
  TrainConfig scratch;
  return set_key(scratch, key, value);
}

// `requires` takes TrainConfig keys, parts of the board's name and the share of padding; a value,
// or an array of allowed values.
void read_requires(TomlTable& table, ClaimRow& claim) {
  json wanted = json::object();
  if (const toml::table* needs = table.table("requires")) {
    for (const auto& [key, value] : *needs) {
      const std::string name(key.str());
      const json allowed = toml_to_json(value);
      check_requirement(table, claim, name, allowed, value);
      for (const json& one : allowed.is_array() ? allowed : json::array({allowed})) {
        if (Result<bool> ok = check_value(name, one); !ok)
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

// Optional: stages of a step in which the source expects the gain.
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

// A row or level that this build lacks is named by a claim that no run can test.
void check_levels(TomlTable& table, const ClaimRow& claim) {
  if (!claim.unmet.empty() || !table.has("optimization") || names_keys(claim)) return;
  const Result<const Optimization*> row = optimizations().lookup(claim.optimization);
  if (!row) {
    table.problems().add(table.node("optimization"), row.error().message);
    return;
  }
  std::vector<std::string> names;
  for (const Level& level : (*row)->levels) names.push_back(level.name);
  for (const auto& [key, level] : {std::pair("from", claim.from), std::pair("to", claim.to)})
    if (table.has(key) && (*row)->level(level) == nullptr)
      table.problems().add(table.node(key),
                           fmt::format("unknown level '{}' of optimization '{}'{}",
                                       printable(level),
                                       claim.optimization,
                                       did_you_mean(level, names)));
}

// `document` and `section`, or `source`, which is both in one sentence.
void read_source(TomlTable& table, QuotedClaim& claim) {
  const std::optional<std::string> source = table.text("source"), document = table.text("document"),
                                   section = table.text("section");
  if (table.has("source") && !table.has("document") && !table.has("section")) {
    claim.row.source = source.value_or("");
    return;
  }
  if (table.has("section"))
    table.required("document");
  else if (!table.has("document"))
    table.problems().add(
        &table.raw(),
        fmt::format("{} lacks the key 'document', and 'section' where it has one", table.path()));
  claim.document = document.value_or("");
  claim.row.source = claim.document;
  if (section) claim.row.source += ", " + *section;
  if (const toml::node* both = table.node("source"))
    table.problems().add(
        both,
        fmt::format("{} takes `document` and `section`, or `source`, not both", table.path()));
}

// Two levels of `optimization`, or two sets of keys.
void read_sides(TomlTable& table, ClaimRow& claim) {
  for (const char* key : {"from", "to"}) table.required(key);
  const toml::node *from = table.node("from"), *to = table.node("to");
  const auto is_set = [](const toml::node* node) { return node != nullptr && node->is_table(); };
  if (!is_set(from) && !is_set(to)) {
    table.required("optimization");
    claim.optimization = table.text("optimization").value_or("");
    claim.from = table.text("from").value_or("");
    claim.to = table.text("to").value_or("");
    return;
  }
  if (const toml::node* row = table.node("optimization"))
    table.problems().add(
        row,
        fmt::format("{} compares sets of keys, which belong to no `optimization`; leave it out",
                    table.path()));
  if (from == nullptr || to == nullptr) return; // the missing key is reported already
  if (is_set(from) != is_set(to))
    return table.problems().add(
        is_set(from) ? to : from,
        fmt::format("{} `from` and `to` are two levels, or two sets of keys, {{ set = {{ … }} }}",
                    table.path()));
  read_key_sets(table, claim);
}

QuotedClaim read_claim(const toml::table& raw, TomlProblems& problems) {
  const std::string id = raw["id"].value_or(std::string());
  TomlTable table(
      raw, id.empty() ? "[[claim]]" : fmt::format("[[claim]] '{}'", printable(id)), problems);
  for (const char* key : {"id", "text", "conditions"}) table.required(key);
  QuotedClaim quoted;
  read_source(table, quoted);
  ClaimRow& claim = quoted.row;
  claim.id = table.text("id").value_or("");
  quoted.where = problems.place(table.has("id") ? table.node("id") : &raw);
  claim.text = table.text("text").value_or("");
  claim.conditions = table.text("conditions").value_or("");
  claim.unmet = table.text("unmet").value_or("");
  read_sides(table, claim);
  read_kind(table, claim);
  read_requires(table, claim);
  read_stages(table, claim);
  check_levels(table, claim);
  table.no_other_keys();
  return quoted;
}

std::vector<std::string> kind_names() {
  std::vector<std::string> names;
  for (const DocumentCheckKind& kind : document_check_kinds()) names.push_back(kind.name);
  return names;
}

// One number above 0, or a list of them.
void read_figure(TomlTable& table, const std::string& name, DocumentCheck& check) {
  table.required(name.c_str());
  const toml::node* node = table.node(name.c_str());
  if (node == nullptr) return;
  const bool list = node->is_array();
  std::vector<double>& values = check.figures[name];
  values = list ? numbers_of(node) : std::vector{node->value_or(0.0)};
  const bool positive =
      std::all_of(values.begin(), values.end(), [](double value) { return value > 0; });
  if (values.empty() || !positive || is_list_figure(name) != list)
    table.problems().add(
        node,
        fmt::format("{} {} takes {}",
                    table.path(),
                    name,
                    is_list_figure(name) ? "a list of numbers above 0" : "a number above 0"));
}

void read_figures(TomlTable& table, DocumentCheck& check) {
  if (!table.has("kind")) return ignore_keys(table);
  const DocumentCheckKind* kind = find_document_check_kind(check.kind);
  if (kind == nullptr)
    return table.problems().add(table.node("kind"),
                                fmt::format("unknown kind '{}'{}; kinds are: {}",
                                            printable(check.kind),
                                            did_you_mean(check.kind, kind_names()),
                                            fmt::join(kind_names(), ", ")));
  std::size_t length = 0;
  for (const std::string& name : kind->figures) {
    read_figure(table, name, check);
    if (!is_list_figure(name) || check.figures[name].empty()) continue;
    if (length != 0 && check.figures[name].size() != length)
      table.problems().add(table.node(name.c_str()),
                           fmt::format("{} lists of one check have one length", table.path()));
    length = check.figures[name].size();
  }
}

DocumentCheck read_check(const toml::table& raw, TomlProblems& problems) {
  TomlTable table(raw, "[[check]]", problems);
  for (const char* key : {"document", "section", "text", "kind"}) table.required(key);
  DocumentCheck check;
  check.document = table.text("document").value_or("");
  check.section = table.text("section").value_or("");
  check.text = table.text("text").value_or("");
  check.kind = table.text("kind").value_or("");
  check.optimizations = table.texts("optimizations");
  check.claims = table.texts("claims");
  read_figures(table, check);
  table.no_other_keys();
  return check;
}

// Of a source in one sentence, "DOCUMENT" or "DOCUMENT, section 2": the longest of the checked
// documents that it names, or "".
std::string document_of(const std::string& source, const std::vector<DocumentCheck>& checks) {
  std::string document;
  for (const DocumentCheck& check : checks)
    if ((source == check.document || source.starts_with(check.document + ",")) &&
        check.document.size() > document.size())
      document = check.document;
  return document;
}

struct ClaimFiles {
  std::vector<QuotedClaim> claims;
  std::vector<DocumentCheck> checks;
};

void read_file(const std::string& path, ClaimFiles& files, std::vector<std::string>& errors) {
  const Result<std::string> text = read_text_file(path);
  if (!text) return errors.push_back(text.error().message);
  const Result<toml::table> parsed = parse_toml(*text, path);
  if (!parsed) return errors.push_back(parsed.error().message);
  TomlProblems problems;
  problems.file = path;
  TomlTable table(*parsed, "a claims file", problems);
  if (!table.has("check")) table.required("claim");
  for (const toml::table* claim : table.tables("claim"))
    files.claims.push_back(read_claim(*claim, problems));
  for (const toml::table* check : table.tables("check"))
    files.checks.push_back(read_check(*check, problems));
  table.no_other_keys();
  errors.insert(errors.end(), problems.messages.begin(), problems.messages.end());
}

} // namespace

Result<std::vector<std::vector<ClaimRow>>>
load_claims_by_file(const std::vector<std::string>& files) {
  ClaimFiles all;
  std::vector<std::string> errors;
  std::vector<std::size_t> ends; // of each file's claims
  for (const std::string& file : files) {
    read_file(file, all, errors);
    ends.push_back(all.claims.size());
  }
  std::map<std::string, std::string> ids; // and where each is
  for (const QuotedClaim& claim : all.claims)
    if (const auto [known, fresh] = ids.emplace(claim.row.id, claim.where); !fresh)
      errors.push_back(
          fmt::format("{}: claim id '{}' is used twice, first at {}; rename one of them",
                      claim.where,
                      printable(claim.row.id),
                      known->second));
  if (!errors.empty()) return fail("{}", fmt::join(errors, "\n"));
  for (QuotedClaim& claim : all.claims)
    if (claim.document.empty()) claim.document = document_of(claim.row.source, all.checks);
  attach_source_errors(all.checks, all.claims);
  std::vector<std::vector<ClaimRow>> by_file;
  for (std::size_t claim = 0; const std::size_t end : ends)
    for (by_file.emplace_back(); claim < end; ++claim)
      by_file.back().push_back(std::move(all.claims[claim].row));
  return by_file;
}

Result<std::vector<ClaimRow>> load_claim_files(const std::vector<std::string>& files) {
  Result<std::vector<std::vector<ClaimRow>>> by_file = load_claims_by_file(files);
  if (!by_file) return by_file.error();
  std::vector<ClaimRow> all;
  for (std::vector<ClaimRow>& claims : *by_file) std::ranges::move(claims, std::back_inserter(all));
  return all;
}

Result<std::string>
claims_path(const std::string& file, const std::string& matrix_file, const std::string& directory) {
  const fs::path own = fs::path(matrix_file).parent_path() / file, // `file` itself, if absolute
      shipped = fs::path(directory) / file;
  std::error_code ignored;
  if (fs::is_regular_file(own, ignored)) return own.string();
  if (!directory.empty() && fs::is_regular_file(shipped, ignored)) return shipped.string();
  if (file.empty()) return fail("[claims] files takes names of files, not \"\"");
  if (fs::is_directory(own, ignored))
    return fail("claims file '{}' is a directory; name the files in it", printable(file));
  if (fs::path(file).is_absolute())
    return fail("claims file '{}' does not exist, or is no regular file; correct its path",
                printable(file));
  return fail("claims file '{}' is {}{}{}; give the path relative to the {}",
              printable(file),
              directory.empty() ? "not " : "neither ",
              printable(own.string()),
              directory.empty() ? "" : " nor " + printable(shipped.string()),
              matrix_file == kStandardInput ? "current directory" : "matrix file");
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

#include "experiments/plan/claims/document_checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <numeric>

namespace assay {

namespace {

constexpr double kTolerance = 0.10; // documents round
constexpr double kLeastMfu = 0.10;  // published trainings of dense models reach 30 % and more
constexpr double kUntrained = 0.98; // of ln V
constexpr double kSecondsAnHour = 3600;
constexpr double kExact = 1e-9; // of a product or quotient of quoted figures

double figure(const DocumentCheck& check, const char* name) {
  return check.figures.at(name).front();
}

bool differs(double value, double stated) {
  return std::abs(value / stated - 1) > kTolerance;
}

bool has(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

struct Range {
  double lowest, highest;
};

Range range_of(const std::vector<double>& values) {
  const auto [lowest, highest] = std::minmax_element(values.begin(), values.end());
  return {*lowest, *highest};
}

bool apart(const Range& a, const Range& b) {
  return a.highest < b.lowest * (1 - kExact) || b.highest < a.lowest * (1 - kExact);
}

std::string range_text(const Range& range) {
  return range.lowest == range.highest
             ? fmt::format("{:.4g}", range.lowest)
             : fmt::format("{:.4g} to {:.4g}", range.lowest, range.highest);
}

double product_of(const std::vector<double>& factors) {
  return std::accumulate(factors.begin(), factors.end(), 1.0, std::multiplies<>());
}

// "82.5 TFLOP/s"; a unit that begins with a space is a word: "250 M parameters", "39 tokens/s".
std::string quantity(double value, const std::string& unit) {
  struct Prefix {
    const char* name;
    double size;
  };
  constexpr std::array<Prefix, 5> kPrefixes{
      {{"P", 1e15}, {"T", 1e12}, {"G", 1e9}, {"M", 1e6}, {"K", 1e3}}};
  for (const Prefix& prefix : kPrefixes)
    if (value >= prefix.size)
      return fmt::format("{:.3g} {}{}", value / prefix.size, prefix.name, unit);
  const bool word = unit.empty() || unit.front() == ' ';
  return fmt::format("{:.3g}{}{}", value, word ? "" : " ", unit);
}

std::optional<std::string> mfu(const DocumentCheck& check) {
  const double rate = figure(check, "tokens_per_second"), size = figure(check, "parameters"),
               flops = 6 * size * rate,
               peak = figure(check, "devices") * figure(check, "peak_flops"), share = flops / peak;
  if (share >= kLeastMfu && share <= 1) return std::nullopt;
  return fmt::format("6 x {} x {} = {}, {:.2g} % of the peak of {}: {}",
                     quantity(size, " parameters"),
                     quantity(rate, " tokens/s"),
                     quantity(flops, "FLOP/s"),
                     100 * share,
                     quantity(peak, "FLOP/s"),
                     share > 1 ? "more than the hardware can do"
                               : "arithmetic does not limit such a run, so look at the host, "
                                 "launches and memory traffic first");
}

std::optional<std::string> duration(const DocumentCheck& check) {
  const double tokens = figure(check, "steps") * figure(check, "tokens_per_step"),
               hours = tokens / figure(check, "tokens_per_second") / kSecondsAnHour,
               stated = figure(check, "hours");
  if (!differs(hours, stated)) return std::nullopt;
  return fmt::format("{} at {} take {:.3g} h, not {:.3g} h",
                     quantity(tokens, " tokens"),
                     quantity(figure(check, "tokens_per_second"), " tokens/s"),
                     hours,
                     stated);
}

std::optional<std::string> ratio(const DocumentCheck& check) {
  const double value = figure(check, "value"), of = figure(check, "of"),
               stated = figure(check, "stated");
  if (!differs(value / of, stated)) return std::nullopt;
  return fmt::format(
      "{} / {} = {:.3g}, not {:.3g}", quantity(value, ""), quantity(of, ""), value / of, stated);
}

std::optional<std::string> product(const DocumentCheck& check) {
  const std::vector<double>& factors = check.figures.at("factors");
  const double value = product_of(factors), stated = figure(check, "stated");
  if (!differs(value, stated)) return std::nullopt;
  return fmt::format("{:.4g} = {:.4g}, not {:.4g}: a factor of {:.3g} is unexplained",
                     fmt::join(factors, " x "),
                     value,
                     stated,
                     std::max(stated / value, value / stated));
}

std::optional<std::string> scaling(const DocumentCheck& check) {
  const std::vector<double>&devices = check.figures.at("device_counts"),
        &lowest = check.figures.at("lowest"), &highest = check.figures.at("highest");
  for (std::size_t few = 0; few < devices.size(); ++few)
    for (std::size_t many = 0; many < devices.size(); ++many)
      if (devices[many] > devices[few] && lowest[many] >= highest[few])
        return fmt::format("{:g} devices at {:g} % or more scale better than {:g} at {:g} % or "
                           "less: efficiency does not rise with devices",
                           devices[many],
                           100 * lowest[many],
                           devices[few],
                           100 * highest[few]);
  return std::nullopt;
}

std::optional<std::string> untrained_loss(const DocumentCheck& check) {
  const double loss = figure(check, "loss"), vocabulary = figure(check, "vocabulary"),
               blind = std::log(vocabulary);
  if (loss < kUntrained * blind) return std::nullopt;
  return fmt::format("a loss of {:.4g} is that of a model that has learned nothing (ln {:g} = "
                     "{:.2f}): a path without gradient, not one of the wrong magnitude",
                     loss,
                     vocabulary,
                     blind);
}

std::optional<std::string> copies(const DocumentCheck& check) {
  const double size = figure(check, "parameters"), bytes = figure(check, "bytes"),
               count = figure(check, "copies"), needed = size * bytes * count,
               stated = figure(check, "stated_bytes");
  if (needed <= stated) return std::nullopt;
  return fmt::format("{:g} copies of {} of {:g} bytes are {}, not {}",
                     count,
                     quantity(size, " parameters"),
                     bytes,
                     quantity(needed, "B"),
                     quantity(stated, "B"));
}

std::optional<std::string> sum(const DocumentCheck& check) {
  const std::vector<double>& terms = check.figures.at("terms");
  const double value = std::accumulate(terms.begin(), terms.end(), 0.0),
               stated = figure(check, "stated");
  if (!differs(value, stated)) return std::nullopt;
  std::vector<std::string> words;
  for (const double term : terms) words.push_back(quantity(term, ""));
  return terms.size() == 1
             ? fmt::format("it is {}, not {}", quantity(value, ""), quantity(stated, ""))
             : fmt::format("{} = {}, not {}",
                           fmt::join(words, " + "),
                           quantity(value, ""),
                           quantity(stated, ""));
}

std::optional<std::string> perplexity(const DocumentCheck& check) {
  const double loss = figure(check, "loss"), stated = figure(check, "perplexity");
  if (!differs(std::exp(loss), stated)) return std::nullopt;
  return fmt::format("e^{:.4g} = {:.3g}, not {:.3g}", loss, std::exp(loss), stated);
}

std::optional<std::string> superlinear(const DocumentCheck& check) {
  const double single = figure(check, "single"), devices = figure(check, "devices"),
               stated = figure(check, "stated"), most = devices * single;
  if (stated <= most * (1 + kExact)) return std::nullopt;
  return fmt::format("{:g} devices of {} are {} together, not {}: an efficiency of {:.3g} %",
                     devices,
                     quantity(single, ""),
                     quantity(most, ""),
                     quantity(stated, ""),
                     100 * stated / most);
}

std::optional<std::string> same_figure(const DocumentCheck& check) {
  const Range first = range_of(check.figures.at("first")),
              second = range_of(check.figures.at("second"));
  if (!apart(first, second)) return std::nullopt;
  return fmt::format(
      "one figure is given twice, as {} and as {}", range_text(first), range_text(second));
}

std::optional<std::string> change(const DocumentCheck& check) {
  const std::vector<double>&before = check.figures.at("before"), &after = check.figures.at("after");
  std::vector<double> ratios;
  for (std::size_t i = 0; i < before.size(); ++i) ratios.push_back(after[i] / before[i]);
  const Range range = range_of(ratios), stated = range_of(check.figures.at("ratios"));
  if (!apart(range, stated)) return std::nullopt;
  std::vector<std::string> words;
  for (std::size_t i = 0; i < before.size(); ++i)
    words.push_back(quantity(before[i], "") + " -> " + quantity(after[i], ""));
  words.erase(std::unique(words.begin(), words.end()), words.end());
  return fmt::format(
      "{} is x{}, not x{}", fmt::join(words, ", "), range_text(range), range_text(stated));
}

std::optional<std::string> compound(const DocumentCheck& check) {
  const std::vector<double>&lowest = check.figures.at("lowest"),
        &highest = check.figures.at("highest");
  const Range range{product_of(lowest), product_of(highest)};
  const double stated = figure(check, "stated");
  if (!apart(range, {stated, stated})) return std::nullopt;
  std::vector<std::string> factors;
  for (std::size_t i = 0; i < lowest.size(); ++i)
    factors.push_back(range_text({lowest[i], highest[i]}));
  return fmt::format("factors of {} multiply to {}, not {:.4g}",
                     fmt::join(factors, ", "),
                     range_text(range),
                     stated);
}

} // namespace

const std::vector<DocumentCheckKind>& document_check_kinds() {
  static const std::vector<DocumentCheckKind> kinds{
      {"mfu", {"tokens_per_second", "parameters", "devices", "peak_flops"}, mfu},
      {"duration", {"steps", "tokens_per_step", "tokens_per_second", "hours"}, duration},
      {"ratio", {"value", "of", "stated"}, ratio},
      {"product", {"factors", "stated"}, product},
      {"scaling", {"device_counts", "lowest", "highest"}, scaling},
      {"untrained_loss", {"loss", "vocabulary"}, untrained_loss},
      {"copies", {"parameters", "bytes", "copies", "stated_bytes"}, copies},
      {"sum", {"terms", "stated"}, sum},
      {"perplexity", {"loss", "perplexity"}, perplexity},
      {"superlinear", {"single", "devices", "stated"}, superlinear},
      {"same_figure", {"first", "second"}, same_figure},
      {"change", {"before", "after", "ratios"}, change},
      {"compound", {"lowest", "highest", "stated"}, compound}};
  return kinds;
}

const DocumentCheckKind* find_document_check_kind(std::string_view name) {
  for (const DocumentCheckKind& kind : document_check_kinds())
    if (kind.name == name) return &kind;
  return nullptr;
}

bool is_list_figure(std::string_view name) {
  constexpr std::array<std::string_view, 10> kLists{"factors",
                                                    "device_counts",
                                                    "lowest",
                                                    "highest",
                                                    "terms",
                                                    "first",
                                                    "second",
                                                    "before",
                                                    "after",
                                                    "ratios"};
  return std::find(kLists.begin(), kLists.end(), name) != kLists.end();
}

std::optional<std::string> arithmetic_error(const DocumentCheck& check) {
  const std::optional<std::string> found = find_document_check_kind(check.kind)->finding(check);
  if (!found) return std::nullopt;
  return fmt::format("{}, {}: \"{}\": {}", check.document, check.section, check.text, *found);
}

void attach_source_errors(const std::vector<DocumentCheck>& checks,
                          std::vector<QuotedClaim>& claims) {
  for (const DocumentCheck& check : checks) {
    const std::optional<std::string> error = arithmetic_error(check);
    if (!error) continue;
    for (QuotedClaim& claim : claims) {
      const bool meant = (check.optimizations.empty() && check.claims.empty()) ||
                         has(check.optimizations, claim.row.optimization) ||
                         has(check.claims, claim.row.id);
      if (meant && claim.document == check.document) claim.row.source_errors.push_back(*error);
    }
  }
}

} // namespace assay

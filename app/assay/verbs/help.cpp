// `assay help` and `assay version`.
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "app/assay/output/glossary.h"
#include "app/assay/output/json_output.h"
#include "app/assay/output/terminal.h"
#include "app/assay/programs.h"
#include "app/assay/verbs.h"
#include "app/assay/version.h"
#include "app/command_line/help.h"
#include "app/command_line/words.h"
#include "core/result.h"
#include "core/text.h"
#include "experiments/report/text_layout.h"

namespace assay::cli {

namespace {

using nlohmann::json;

constexpr int kPipeColumns = 80;

void print_term(const Term& term) {
  const auto width = static_cast<std::size_t>(terminal_columns(STDOUT_FILENO, kPipeColumns));
  fmt::print("{}\n  {}\n", term.name, wrap_text(term.meaning, width, 2));
  if (!term.stored.empty()) fmt::print("  ({})\n", wrap_text(term.stored, width - 2, 3));
}

void print_topics(const CLI::App& app) {
  const auto width = static_cast<std::size_t>(terminal_columns(STDOUT_FILENO, kPipeColumns));
  std::vector<std::string> names;
  for (const Term& term : glossary())
    for (std::string& word : words_of(term)) names.push_back(std::move(word));
  const auto print = [&](const char* title, const std::vector<std::string>& topics) {
    fmt::print(
        "{}\n  {}\n", title, wrap_text(fmt::format("{}", fmt::join(topics, ", ")), width, 2));
  };
  print("commands", command_names(app));
  print("words (all: `assay help terms`)", names);
}

void print_terms() {
  for (const Term& term : glossary()) print_term(term);
}

[[noreturn]] void refuse_topic(const CLI::App& app, const std::string& topic) {
  std::vector<std::string> known = command_names(app);
  known.insert(known.end(), {kTermsTopic, kAllTopics});
  for (const Term& term : glossary())
    for (std::string& word : words_of(term)) known.push_back(std::move(word));
  for (std::string& name : listed_names()) known.push_back(std::move(name));
  bad_input("no help about '{}'{}; `assay help all` lists the commands and the words, `assay list` "
            "the optimizations",
            topic,
            did_you_mean(topic, known));
}

json term_json(const Term& term) {
  json row = {{"term", term.name}, {"meaning", term.meaning}};
  if (!term.stored.empty()) row["stored"] = term.stored;
  return row;
}

// The words that `topic` finds, at least one; several only where it is a part of each.
std::vector<const Term*> terms_of(const CLI::App& app, const std::string& topic) {
  const std::vector<const Term*> found = find_terms(topic);
  if (found.empty()) refuse_topic(app, topic);
  if (found.size() == 1) return found;
  std::vector<std::string> names;
  for (const Term* term : found) names.push_back(term->name);
  bad_input("several words have a part that begins with '{}': {}; give more of one",
            topic,
            fmt::join(names, ", "));
}

// A word of the glossary that several words are, though the first is a command: "train step".
const Term* term_of_several(const std::vector<std::string>& topics) {
  return topics.size() > 1 ? exact_term(fmt::format("{}", fmt::join(topics, " "))) : nullptr;
}

[[noreturn]] void refuse_second_topic(const std::vector<std::string>& topics) {
  bad_input("help describes one command at a time, not '{}' and '{}'", topics[0], topics[1]);
}

// Below a command or key that is a word of the glossary too.
void print_as_word(const std::string& topic) {
  const Term* term = exact_term(topic);
  if (term == nullptr) return;
  fmt::print("\nas a word: ");
  print_term(*term);
}

// What the words name beside a command, without the `terms` that may stand before it.
std::string topic_of(const std::vector<std::string>& topics) {
  const auto first = topics.begin() + (topics.front() == kTermsTopic ? 1 : 0);
  return fmt::format("{}", fmt::join(first, topics.end(), " "));
}

json commands_json(const CLI::App& app) {
  json rows = json::array();
  for (const CLI::App* command : commands_of(app))
    rows.push_back({{"name", command->get_name()}, {"summary", command->get_description()}});
  return rows;
}

json terms_json() {
  json rows = json::array();
  for (const Term& term : glossary()) rows.push_back(term_json(term));
  return rows;
}

json help_json(const CLI::App& app, const std::vector<std::string>& topics) {
  if (topics.empty()) return {{"commands", commands_json(app)}};
  if (topics.front() == kTermsTopic && topics.size() == 1) return {{"terms", terms_json()}};
  if (const Term* term = term_of_several(topics))
    return {{"terms", json::array({term_json(*term)})}};
  if (topics.front() == kAllTopics && topics.size() == 1)
    return {{"commands", commands_json(app)}, {"terms", terms_json()}};
  for (const CLI::App* command : commands_of(app))
    if (command->get_name() == topics.front())
      bad_input("the help of a command has no JSON; `assay help {}` prints it, and `assay help "
                "--json` lists the commands",
                topics.front());
  const std::string topic = topic_of(topics);
  if (const auto names = listed_names(); std::ranges::find(names, topic) != names.end()) {
    json listed = listed_json(topic);
    if (const Term* term = exact_term(topic)) listed["terms"] = json::array({term_json(*term)});
    return listed;
  }
  return {{"terms", json::array({term_json(*terms_of(app, topic).front())})}};
}

void print_help(const CLI::App& app, const std::vector<std::string>& topics) {
  if (topics.empty()) {
    fmt::print("{}",
               app.get_formatter()->make_help(&app, app.get_name(), CLI::AppFormatMode::Normal));
    return;
  }
  if (topics.front() == kTermsTopic && topics.size() == 1) return print_terms();
  if (const Term* term = term_of_several(topics)) return print_term(*term);
  if (topics.front() == kAllTopics && topics.size() == 1) return print_topics(app);
  for (const CLI::App* command : commands_of(app)) {
    if (command->get_name() != topics.front()) continue;
    const std::string& name = command->get_name();
    const bool has_commands = name == "tokenizer" || name == "needle"; // of its own
    if (topics.size() > (has_commands ? 2 : 1)) refuse_second_topic(topics);
    if (command->get_prefix_command()) {
      std::vector<std::string> arguments = topics;
      arguments.emplace_back("--help");
      exec_program(program_path("assay"), arguments);
    }
    fmt::print("{}", command->help(app.get_name()));
    print_as_word(topics.front());
    return;
  }
  const std::string topic = topic_of(topics);
  if (const auto names = listed_names(); std::ranges::find(names, topic) != names.end()) {
    TextWriter out(TerminalOptions{}.style());
    print_listed(topic, out);
    fmt::print("{}", out.take());
    print_as_word(topic);
    return;
  }
  print_term(*terms_of(app, topic).front());
}

// Sections of the other programs' commands, where these are built.
std::string other_sections() {
  std::string sections;
  for (const char* program : {"assay-worker", "assay-view"})
    if (find_program(program)) sections += capture(program_path(program), {"--manual"});
  return sections;
}

void print_manual(const CLI::App& app) {
  fmt::print(".TH ASSAY 1 \"{}\" \"{}\" \"User Commands\"\n"
             ".SH NAME\nassay \\- {}\n"
             ".SH SYNOPSIS\n.B assay\nCOMMAND [OPTIONS]\n"
             ".SH DESCRIPTION\n{}"
             ".SH COMMANDS\n{}{}",
             kCommitDate,
             troff_text(version_line()),
             "compare training optimizations and judge the difference",
             manual_examples(app.get_footer()),
             manual_sections(app),
             other_sections());
  fmt::print(".SH EXIT STATUS\n"
             ".TP\n.B 0\ndone; for run: the plan is complete, whatever the verdicts\n"
             ".TP\n.B 1\ninternal error\n"
             ".TP\n.B 2\nbad usage or bad input, or output that cannot be written\n"
             ".TP\n.B 6\nincomplete: run or train stopped before its end\n"
             ".SH ENVIRONMENT\n"
             ".TP\n.B COLUMNS\ncolumns to print in, where no \\-\\-width is given\n"
             ".TP\n.B NO_COLOR\nno colours, if it is set and not empty\n"
             ".TP\n.B LC_ALL, LC_CTYPE, LANG\nwithout UTF\\-8 the output is ASCII\n"
             ".SH TERMS\n");
  for (const Term& term : glossary())
    fmt::print(".TP\n.B {}\n{}\n", troff_text(term.name), troff_text(term.meaning));
}

json worker_json() {
  if (!find_program("assay-worker")) return nullptr;
  const json identity = worker_identity();
  return {{"libtorch", identity.at("libtorch")},
          {"build", identity.at("build")},
          {"cuda", identity.at("cuda")},
          {"gpu", identity.at("gpu")}};
}

void print_version(bool as_json) {
  const json worker = worker_json();
  if (as_json) {
    print_json({{"version", ASSAY_VERSION},
                {"commit", kCommit},
                {"build", build_name()},
                {"worker", worker}});
    return;
  }
  fmt::print("{}\n", version_line());
  if (worker.is_null())
    fmt::print("worker: not built; `make build` builds it\n");
  else
    fmt::print("worker: LibTorch {}, build {}\n",
               worker.at("libtorch").get<std::string>(),
               worker.at("build").get<std::string>().substr(0, 12));
}

} // namespace

void add_help(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "help",
      "help about a command, an optimization, a key, a word, or all words (`terms`); `all` lists "
      "commands and words");
  struct Options {
    std::vector<std::string> topics;
    bool manual = false, json = false;
  };
  auto options = std::make_shared<Options>();
  command
      ->add_option(
          "topic",
          options->topics,
          "a command, an optimization or key of `assay list`, `terms`, a word of them or a part of "
          "it, or `all`")
      ->type_name("TOPIC");
  CLI::Option* manual =
      command->add_flag("--man", options->manual, "print the man page: assay help --man > assay.1");
  command->add_flag("--json", options->json, "print JSON")->excludes(manual);
  command->callback([&app, options] {
    if (options->manual)
      print_manual(app);
    else if (options->json)
      print_json(help_json(app, options->topics));
    else
      print_help(app, options->topics);
  });
}

void print_version_json() {
  print_version(true);
}

void add_version(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("version", "version, commit and build, and LibTorch of the worker");
  auto as_json = std::make_shared<bool>(false);
  command->add_flag("--json", *as_json, "print JSON");
  command->callback([as_json] { print_version(*as_json); });
}

} // namespace assay::cli

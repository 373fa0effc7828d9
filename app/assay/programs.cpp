#include "app/assay/programs.h"

#include <fmt/ranges.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "app/assay/verbs.h"
#include "core/files/shell_text.h"
#include "core/result.h"
#include "core/system_call.h"

namespace assay::cli {

namespace {

namespace fs = std::filesystem;

fs::path own_directory() {
  return fs::read_symlink("/proc/self/exe").parent_path();
}

std::vector<char*> argument_vector(std::vector<std::string>& arguments) {
  std::vector<char*> result;
  for (std::string& argument : arguments) result.push_back(argument.data());
  result.push_back(nullptr);
  return result;
}

// Returns only when the program does not start.
void replace_process(const std::string& program, const std::vector<std::string>& arguments) {
  std::vector<std::string> all{program};
  all.insert(all.end(), arguments.begin(), arguments.end());
  ::execv(program.c_str(), argument_vector(all).data());
}

struct Forwarded {
  const char *verb, *program, *summary;
  bool with_verb; // the program has several
};
constexpr std::array<Forwarded, 8> kForwarded{
    {{"view", "assay-view", "open a results directory in the viewer", false},
     {"train", "assay-worker", "train a model alone, with checkpoints", true},
     {"evaluate", "assay-worker", "loss of a checkpoint on held-out text", true},
     {"generate", "assay-worker", "sample text from a checkpoint", true},
     {"tokenizer", "assay-worker", "train a SentencePiece model on a corpus", true},
     {"diagnose", "assay-worker", "are the parts of a checkpoint's model alive", true},
     {"needle", "assay-worker", "what a checkpoint finds of facts hidden in long texts", true},
     {"answer", "assay-worker", "answers to questions over long texts, scored", true}}};

int wait_for(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGPIPE)
    ::raise(SIGPIPE); // it wrote where we write: nobody reads any more
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

} // namespace

bool find_program(const std::string& name) {
  return fs::exists(own_directory() / name);
}

std::string program_path(const std::string& name) {
  const fs::path path = own_directory() / name;
  if (!fs::exists(path))
    bad_input("{} is not beside {}; build it with `make {}`",
              name,
              (own_directory() / "assay").string(),
              name == "assay-view" ? "viewer" : "build");
  return path.string();
}

std::string data_directory(const std::string& name) {
  for (const fs::path& path : {own_directory() / "../share/assay" / name,
                               own_directory() / "../../experiments" / name,
                               own_directory() / "../../../experiments" / name})
    if (fs::is_directory(path)) return fs::canonical(path).string();
  bad_input("the directory of {} is neither in an installation nor in a source tree around {}",
            name,
            own_directory().string());
}

std::string command_line() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word, '\0');)
    words.push_back(words.empty() ? fs::path(word).filename().string() : word);
  return shell_line(words);
}

void exec_program(const std::string& program, const std::vector<std::string>& arguments) {
  std::fflush(stdout); // what is buffered would be lost
  replace_process(program, arguments);
  internal_error("cannot start {}: {}", program, std::strerror(errno));
}

int call(const std::string& program, const std::vector<std::string>& arguments) {
  std::fflush(stdout);
  const pid_t child = ::fork();
  if (child < 0) refuse_call("no program can be started", "fork", errno);
  if (child == 0) {
    replace_process(program, arguments);
    ::_exit(127);
  }
  return wait_for(child);
}

std::string capture(const std::string& program, const std::vector<std::string>& arguments) {
  std::array<int, 2> pipe{};
  if (::pipe(pipe.data()) != 0) refuse_call("no program can be started", "pipe", errno);
  const pid_t child = ::fork();
  if (child < 0) refuse_call("no program can be started", "fork", errno);
  if (child == 0) {
    ::dup2(pipe[1], STDOUT_FILENO);
    ::close(pipe[0]);
    ::close(pipe[1]);
    replace_process(program, arguments);
    ::_exit(127);
  }
  ::close(pipe[1]);
  std::string output;
  std::array<char, 4096> buffer{};
  for (ssize_t n = 0; (n = ::read(pipe[0], buffer.data(), buffer.size())) != 0;) {
    if (n < 0 && errno != EINTR) break;
    if (n > 0) output.append(buffer.data(), static_cast<std::size_t>(n));
  }
  ::close(pipe[0]);
  const int code = wait_for(child);
  if (code == kBadInput) // it has named the cause
    bad_input("`{} {}` failed, for the reason above",
              fs::path(program).filename().string(),
              fmt::join(arguments, " "));
  if (code != 0)
    internal_error("{} {} failed (exit code {})", program, fmt::join(arguments, " "), code);
  return output;
}

nlohmann::json worker_identity() {
  return nlohmann::json::parse(capture(program_path("assay-worker"), {"identity"}));
}

void add_programs(CLI::App& app) {
  for (const Forwarded& row : kForwarded) {
    CLI::App* command = app.add_subcommand(row.verb, row.summary);
    command->prefix_command();
    command->set_help_flag(); // the program itself answers --help
  }
}

void forward_to_program(const std::vector<std::string>& words) {
  if (words.empty()) return;
  for (const Forwarded& row : kForwarded)
    if (words.front() == row.verb)
      exec_program(program_path(row.program), {words.begin() + !row.with_verb, words.end()});
}

std::string installed_worker_build() {
  if (!find_program("assay-worker")) return "";
  try {
    return worker_identity().value("build", "");
  } catch (const std::exception&) {
    return "";
  }
}

} // namespace assay::cli

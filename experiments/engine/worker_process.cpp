#include "experiments/engine/worker_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>

#include "core/json_fault.h"
#include "core/lines.h"
#include "core/protocol/protocol.h"
#include "core/result.h"
#include "core/system_call.h"
#include "core/text.h"
#include "experiments/engine/stop_signal.h"

namespace assay {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

namespace {

constexpr const char* kNoWorker = "no worker can be started";
constexpr std::size_t kLogTailBytes = 800;
constexpr const char* kTooManyFiles = "too many open files; allow more of them (ulimit -n)\n";
constexpr const char* kNotExecuted = "the program cannot be executed\n";
constexpr std::int64_t kLookMs = 500;            // for a signal that came just before poll()
constexpr std::size_t kLongestLine = 256u << 20; // a worker that never ends its line is broken

std::string log_tail(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return "";
  const auto size = static_cast<std::size_t>(file.tellg());
  file.seekg(static_cast<std::streamoff>(size > kLogTailBytes ? size - kLogTailBytes : 0));
  std::ostringstream text;
  text << file.rdbuf();
  std::string tail;
  std::istringstream lines(text.str());
  for (std::string line; std::getline(lines, line);)
    if (!line.empty()) tail += (tail.empty() ? "" : " | ") + printable(line);
  return tail;
}

struct Pipes {
  int engine_requests, worker_requests, engine_events, worker_events, log;
};

Pipes open_pipes(const std::string& log_path) {
  std::array<int, 2> socket{}, pipe{};
  const int log = ::open(log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (log < 0) bad_input("{}: cannot be written: {}", log_path, system_cause(errno));
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, socket.data()) != 0)
    refuse_call(kNoWorker, "socketpair", errno);
  if (::pipe2(pipe.data(), O_CLOEXEC) != 0) refuse_call(kNoWorker, "pipe2", errno);
  return {socket[0], socket[1], pipe[0], pipe[1], log};
}

// Puts `from` at `to` and keeps it over exec.
bool place(int from, int to) {
  if (from == to) return ::fcntl(to, F_SETFD, 0) == 0;
  return ::dup2(from, to) == to;
}

// The engine quotes the log.
[[noreturn]] void end_child(int log, const char* why) {
  (void)!::write(log, why, std::strlen(why));
  ::_exit(127);
}

// The child between fork and exec: async-signal-safe calls only.
[[noreturn]] void become_worker(const Pipes& pipes,
                                const char* program,
                                char* const* argv,
                                char* const* environment,
                                pid_t engine) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != engine) ::_exit(125); // the engine died before prctl
  // Out of the way first: the originals may be the very numbers that are to be filled.
  const int requests = ::fcntl(pipes.worker_requests, F_DUPFD_CLOEXEC, 10);
  const int events = ::fcntl(pipes.worker_events, F_DUPFD_CLOEXEC, 10);
  const int log = ::fcntl(pipes.log, F_DUPFD_CLOEXEC, 10);
  if (requests < 0 || events < 0 || log < 0) end_child(pipes.log, kTooManyFiles);
  if (place(requests, 0) && place(log, 1) && place(log, 2) && place(events, kWorkerEventFd))
    ::execve(program, argv, environment);
  end_child(log, kNotExecuted);
}

// "K=V" of every variable: the engine's own, and `changes` over them.
std::vector<std::string> environment_with(const std::string& changes) {
  std::map<std::string, std::string> variables;
  const auto add = [&](const std::string& text) {
    const std::size_t equals = text.find('=');
    if (equals != std::string::npos) variables[text.substr(0, equals)] = text;
  };
  for (char** one = environ; *one != nullptr; ++one) add(*one);
  for (const std::string& line : lines_of(changes)) add(line);
  std::vector<std::string> result;
  for (auto& [name, text] : variables) result.push_back(std::move(text));
  return result;
}

// As execve() takes them; valid as long as `texts` are.
std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

} // namespace

WorkerProcess::WorkerProcess(const std::string& program,
                             const std::vector<std::string>& arguments,
                             std::string log_path,
                             const std::string& environment)
    : log_path_(std::move(log_path)) {
  if (::access(program.c_str(), X_OK) != 0)
    bad_input("{}: the worker cannot be started ({}); build it, or check the installation with "
              "`assay doctor`",
              program,
              std::strerror(errno));
  const Pipes pipes = open_pipes(log_path_);
  std::vector<std::string> words{program};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<std::string> variables = environment_with(environment);
  const std::vector<char*> argv = pointers(words), envp = pointers(variables);
  const pid_t engine = ::getpid();
  pid_ = ::fork();
  if (pid_ == 0) become_worker(pipes, program.c_str(), argv.data(), envp.data(), engine);
  const int error = errno;
  ::close(pipes.worker_requests);
  ::close(pipes.worker_events);
  ::close(pipes.log);
  requests_ = pipes.engine_requests;
  events_ = pipes.engine_events;
  if (pid_ < 0) {
    ::close(requests_);
    ::close(events_);
    refuse_call(kNoWorker, "fork", error);
  }
  ::setpgid(pid_, pid_); // both sides do it, whoever comes first
}

WorkerProcess::~WorkerProcess() {
  kill_group();
  if (requests_ >= 0) ::close(requests_);
  if (events_ >= 0) ::close(events_);
}

void WorkerProcess::kill_group() {
  if (pid_ <= 0) return;
  ::kill(-pid_, SIGKILL);
  (void)death();
}

std::string WorkerProcess::death() {
  if (pid_ <= 0) return exit_text_;
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  if (WIFSIGNALED(status))
    exit_text_ = fmt::format(
        "was killed by signal {} ({})", WTERMSIG(status), ::strsignal(WTERMSIG(status)));
  else if (WEXITSTATUS(status) != 0)
    exit_text_ = fmt::format("exited with status {}", WEXITSTATUS(status));
  return exit_text_;
}

bool WorkerProcess::send(const json& request) {
  const std::string line = request.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
  for (std::size_t sent = 0; sent < line.size();) {
    const ssize_t n = ::send(requests_, line.data() + sent, line.size() - sent, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    sent += static_cast<std::size_t>(n);
  }
  return true;
}

WorkerProcess::Read WorkerProcess::read_line(std::string& line,
                                             Clock::time_point deadline,
                                             const std::function<bool()>& gives_up) {
  for (;;) {
    if (const std::size_t end = buffer_.find('\n'); end != std::string::npos) {
      line = buffer_.substr(0, end);
      buffer_.erase(0, end + 1);
      return Read::Line;
    }
    if (gives_up()) return Read::GivenUp;
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return Read::TimedOut;
    pollfd waiting{events_, POLLIN, 0};
    const int ready = ::poll(&waiting, 1, static_cast<int>(std::min<std::int64_t>(left, kLookMs)));
    if (ready <= 0) continue;
    std::array<char, 65536> chunk;
    const ssize_t n = ::read(events_, chunk.data(), chunk.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0 || buffer_.size() > kLongestLine) return Read::End;
    buffer_.append(chunk.data(), static_cast<std::size_t>(n));
  }
}

WorkerReply WorkerProcess::failed(const std::string& message) {
  const std::string tail = log_tail(log_path_);
  return {WorkerReply::Kind::Failed,
          {},
          tail.empty() ? message : fmt::format("{}; its log ends: {}", message, tail)};
}

WorkerReply WorkerProcess::interpret(const json& event, const char* expected) {
  const std::string name = event.value("event", "");
  if (name == expected) return {WorkerReply::Kind::Answer, event, ""};
  if (name == "retired" && event.contains("variant") && event["variant"].is_number_unsigned())
    return {WorkerReply::Kind::Retired, event, ""};
  if (name == "error") {
    const std::string message = printable(event.value("message", "no message"));
    if (event.value("kind", "") == "bad_input")
      return {WorkerReply::Kind::BadInput, event, message};
    return failed(event.value("kind", "") == "out_of_memory"
                      ? "the worker ran out of memory: " + message
                      : "the worker failed: " + message);
  }
  return failed(
      fmt::format("the worker answered '{}' where '{}' was expected", printable(name), expected));
}

WorkerReply WorkerProcess::ask(const json& request,
                               const char* expected,
                               Seconds timeout,
                               const std::function<bool()>& gives_up) {
  const bool sent = send(request); // a dead worker may have sent its reason before it died: read on
  for (;;) {
    std::string line;
    const auto deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(timeout);
    switch (read_line(line, deadline, gives_up)) {
    case Read::GivenUp:
      kill_group();
      return {WorkerReply::Kind::GivenUp, {}, "interrupted"};
    case Read::TimedOut:
      kill_group();
      return failed(fmt::format("the worker gave no answer within {} and was killed",
                                human_seconds(timeout.count())));
    case Read::End: {
      const std::string how = death();
      return failed(how.empty() ? std::string(sent ? "the worker ended before it answered"
                                                   : "the worker ended early")
                                : "the worker " + how);
    }
    case Read::Line:
      break;
    }
    const json event = json::parse(line, nullptr, false);
    if (!event.is_object())
      return failed(fmt::format("the worker sent a line that is not a JSON object: {}",
                                printable(line.substr(0, 120))));
    if (event.value("event", "") != "progress") {
      try {
        return interpret(event, expected);
      } catch (const json::exception& error) {
        return failed(
            fmt::format("the worker's event breaks the protocol ({})", json_fault(error)));
      }
    }
  }
}

std::string WorkerProcess::finish(Seconds timeout) {
  ::close(requests_);
  requests_ = -1;
  std::string line;
  const auto deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(timeout);
  for (;;) {
    const Read read = read_line(line, deadline, [] { return StopSignal::count() > 1; });
    if (read == Read::Line) continue;
    if (read == Read::End) return death();
    kill_group();
    return "did not exit after its last answer and was killed";
  }
}

} // namespace assay

#include "app/command_line/program.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <system_error>

#include "app/command_line/help.h"
#include "core/build_id.h"
#include "core/result.h"
#include "core/system_call.h"
#include "core/terminal_width.h"
#include "core/text.h"

namespace assay {

namespace {

constexpr std::size_t kMessageIndent = 2; // of the lines after the first

const char* volatile last_words = nullptr;
volatile std::sig_atomic_t begins_line = 0; // after a terminal's progress line and its "^C"

// Async-signal-safe calls only. The signal comes again when this returns, to its default action.
void say_and_end(int signal) {
  if (begins_line != 0) (void)!::write(STDERR_FILENO, "\n", 1);
  (void)!::write(STDERR_FILENO, last_words, std::strlen(last_words));
  (void)!::write(STDERR_FILENO, "\n", 1);
  (void)std::raise(signal);
}

// A closed stream's number would go to the next file that is opened, a ledger for instance, and
// messages into it. Its replacement refuses what is wrong with a closed one, except messages.
void open_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(stream, F_GETFD) < 0 && errno == EBADF &&
        ::open("/dev/null", stream == STDOUT_FILENO ? O_RDONLY : O_RDWR) < 0)
      return; // without /dev/null nothing else is possible
}

// A terminal gets lines that fit; a program that reads messages gets them whole.
std::string for_terminal(const std::string& text) {
  if (::isatty(STDERR_FILENO) == 0) return text;
  const auto width = static_cast<std::size_t>(
      std::max(terminal_columns(STDERR_FILENO, kUsualColumns), kLeastColumns));
  std::string out;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    if (at > 0) out += "\n";
    const std::size_t first = std::min(text.find_first_not_of(' ', at), end);
    out += text.substr(at, first - at) +
           wrap_text(text.substr(first, end - first), width, first - at + kMessageIndent);
    at = end + 1;
  }
  return out;
}

// A reader that closed the pipe needs no message.
int refuse_output(int error, int exit_code) {
  if (error == EPIPE) return exit_code;
  print_error(fmt::format("cannot write the output: {}",
                          error == ENOSPC
                              ? "No space left on device; free some space, or send it elsewhere"
                              : system_cause(error)));
  return kBadInput;
}

int guarded(const std::function<int()>& body, int& output_error) {
  try {
    return body();
  } catch (const Failure& failure) {
    print_error(failure.what());
    return failure.kind() == Failure::Kind::BadInput ? kBadInput : kInternal;
  } catch (const std::system_error& error) {
    if (std::ferror(stdout) != 0) {
      output_error = error.code().value();
      return kOk;
    }
    print_error(error.what(), "internal error");
  } catch (const std::exception& error) {
    print_error(error.what(), "internal error");
  }
  return kInternal;
}

} // namespace

std::string program_version(const std::string& program, const std::string& version) {
  const std::string build = linker_build_id();
  return fmt::format(
      "{} {} (build {})", program, version, build.empty() ? "unknown" : build.substr(0, 12));
}

// Several problems have one line each; a line that begins with a space goes on with the one before.
void print_error(const std::string& message, const char* kind) {
  const std::string clean = printable(message);
  std::string text;
  for (std::size_t at = 0; at <= clean.size();) {
    const std::size_t end = std::min(clean.find('\n', at), clean.size());
    const std::string line = clean.substr(at, end - at);
    if (at == 0 || !(line.empty() || line.starts_with(' '))) text += std::string(kind) + ": ";
    text += line + (end < clean.size() ? "\n" : "");
    at = end + 1;
  }
  print_note(text);
}

void print_note(const std::string& text) {
  std::fputs((for_terminal(printable(text)) + "\n").c_str(), stderr);
}

void print_note_command(const std::string& command) {
  const bool terminal = ::isatty(STDERR_FILENO) != 0;
  const int columns = std::max(terminal_columns(STDERR_FILENO, kUsualColumns), kLeastColumns);
  const std::string text = "  " + printable(command);
  std::fputs(
      ((terminal ? wrap_command(text, static_cast<std::size_t>(columns)) : text) + "\n").c_str(),
      stderr);
}

void say_when_interrupted(const char* text) {
  last_words = text;
  begins_line = ::isatty(STDERR_FILENO);
  struct sigaction action {};
  action.sa_handler = say_and_end;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

int run_program(const std::function<int()>& body) {
  std::signal(SIGXFSZ, SIG_IGN); // a size limit is an error like a full disk
  open_standard_streams();
  int output_error = 0;
  const int exit_code = guarded(body, output_error);
  // What is still buffered would be lost without a word at exit.
  errno = 0;
  if (std::fflush(stdout) != 0 && output_error == 0) output_error = errno;
  if (std::ferror(stdout) != 0 && output_error == 0) output_error = EIO; // the cause is forgotten
  return output_error == 0 ? exit_code : refuse_output(output_error, exit_code);
}

} // namespace assay

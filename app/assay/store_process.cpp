#include "app/assay/store_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "core/result.h"
#include "core/system_call.h"

namespace assay::cli {

StoreProcess::StoreProcess(const std::string& worker_program) {
  std::array<int, 2> in{}, out{};
  if (::pipe2(in.data(), O_CLOEXEC) != 0 || ::pipe2(out.data(), O_CLOEXEC) != 0)
    refuse_call("the ranks' TCPStore cannot be started", "pipe", errno);
  pid_ = ::fork();
  if (pid_ < 0) refuse_call("the ranks' TCPStore cannot be started", "fork", errno);
  if (pid_ == 0) {
    ::setpgid(0, 0); // Ctrl-C is the engine's; its end closes our standard input
    ::dup2(in[0], STDIN_FILENO);
    ::dup2(out[1], STDOUT_FILENO);
    ::execl(worker_program.c_str(), worker_program.c_str(), "host-ranks", nullptr);
    ::_exit(127);
  }
  ::close(in[0]);
  ::close(out[1]);
  input_ = in[1];
  std::array<char, 16> word{};
  ssize_t n = 0;
  while ((n = ::read(out[0], word.data(), word.size())) < 0 && errno == EINTR) {
  }
  ::close(out[0]);
  if (n > 0) return;
  ::close(input_);
  ::waitpid(pid_, nullptr, 0);
  internal_error("the ranks' TCPStore could not be opened; is MASTER_PORT free on this machine, "
                 "and does MASTER_ADDR name it?");
}

void StoreProcess::fail(int exit_code, const std::string& message) {
  end_ = std::to_string(exit_code) + " " + message;
}

StoreProcess::~StoreProcess() {
  const auto before = std::signal(SIGPIPE, SIG_IGN); // of a host that was killed
  for (std::size_t sent = 0; sent < end_.size();) {
    const ssize_t n = ::write(input_, end_.data() + sent, end_.size() - sent);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) { // no reader is left: without their store the other ranks end
      fmt::print(stderr, "warning: the ranks' TCPStore is gone: {}\n", std::strerror(errno));
      break;
    }
    sent += static_cast<std::size_t>(n);
  }
  ::close(input_);
  std::signal(SIGPIPE, before);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

} // namespace assay::cli

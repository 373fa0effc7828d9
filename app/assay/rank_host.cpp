#include "app/assay/rank_host.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "core/result.h"

namespace assay::cli {

RankHost::RankHost(const std::string& worker_program) {
  std::array<int, 2> in{}, out{};
  if (::pipe2(in.data(), O_CLOEXEC) != 0 || ::pipe2(out.data(), O_CLOEXEC) != 0)
    internal_error("pipe: {}", std::strerror(errno));
  pid_ = ::fork();
  if (pid_ < 0) internal_error("fork: {}", std::strerror(errno));
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
  internal_error("the store of the ranks could not be opened; is MASTER_PORT free on this machine, "
                 "and does MASTER_ADDR name it?");
}

RankHost::~RankHost() {
  ::close(input_);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

} // namespace assay::cli

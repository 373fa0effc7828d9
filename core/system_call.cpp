#include "core/system_call.h"

#include <cerrno>
#include <cstring>

#include "core/result.h"

namespace assay {

std::string limit_remedy(int error) {
  switch (error) {
  case EMFILE:
    return "raise the limit of open files in this shell: `ulimit -n 4096`";
  case ENFILE:
    return "the whole system has too many open files: end other programs";
  case EAGAIN:
    return "raise the limit of processes in this shell (`ulimit -u`), or end other programs";
  case ENOMEM:
    return "free some memory: end other programs";
  case EFBIG:
    return "raise the limit of a file's size in this shell (`ulimit -f`)";
  default:
    return "";
  }
}

namespace {

std::string remedy_of(int error) {
  switch (error) {
  case ENOENT:
    return "check its name";
  case ENAMETOOLONG:
    return "choose a shorter one";
  case EACCES:
  case EPERM:
    return "change its permissions";
  case ELOOP:
    return "a link in it leads back to itself: name the place that it is to lead to";
  default:
    return limit_remedy(error);
  }
}

} // namespace

std::string system_cause(int error) {
  const std::string remedy = remedy_of(error);
  return std::strerror(error) + (remedy.empty() ? "" : "; " + remedy);
}

void refuse_call(const char* what, const char* call, int error) {
  if (limit_remedy(error).empty()) internal_error("{}: {}: {}", what, call, std::strerror(error));
  bad_input("{}: {}", what, system_cause(error));
}

} // namespace assay

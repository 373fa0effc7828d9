// What a person reads and can do when the system refuses something.
#pragma once

#include <string>

namespace assay {

// How to raise the limit that an errno reports, or "" for any other errno.
std::string limit_remedy(int error);

// "Too many open files; raise their limit: `ulimit -n 4096`": the cause of an errno, and the next
// action where there is one.
std::string system_cause(int error);

// Throws Failure: bad input where a limit is reached, which is no mistake of ours, else internal.
// `what`: "the worker cannot be started"; `call`: "fork".
[[noreturn]] void refuse_call(const char* what, const char* call, int error);

} // namespace assay

// What ran another way than its level asks for. Counted in the whole process, whether or not a span
// sink listens, so that every launch can report it: a fallback changes what a figure is about.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace assay {

// `name`: a literal "fallback/<key>", which becomes the path of a metric. Counts to the sink too.
void note_fallback(const char* name);

// By name, since the process began. From any thread.
std::map<std::string, std::int64_t> fallbacks();

} // namespace assay

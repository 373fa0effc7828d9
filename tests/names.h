// A matcher of messages that leaves their wording free.
#pragma once

#include <gmock/gmock.h>

namespace assay::test {

// Each part is in the text: the thing, its figure, the next action; a few words at most.
template <class... Parts> auto names(const Parts&... parts) {
  return testing::AllOf(testing::HasSubstr(parts)...);
}

} // namespace assay::test

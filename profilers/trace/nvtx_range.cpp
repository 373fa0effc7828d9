#include "profilers/trace/nvtx_range.h"

#include <nvtx3/nvToolsExt.h>

namespace assay {

namespace {

nvtxDomainHandle_t domain() {
  static const nvtxDomainHandle_t handle = nvtxDomainCreateA("assay");
  return handle;
}

} // namespace

void nvtx_open_domain() {
  (void)domain();
}

void nvtx_push(const char* name) {
  nvtxEventAttributes_t attributes{};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attributes.message.ascii = name;
  nvtxDomainRangePushEx(domain(), &attributes);
}

void nvtx_pop() {
  nvtxDomainRangePop(domain());
}

} // namespace assay

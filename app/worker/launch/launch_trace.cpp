// The trace of a traced launch: what is collected, where it goes, what is written beside it.
#include <algorithm>
#include <filesystem>
#include <iterator>
#include <utility>

#include "app/worker/launch/identity.h"
#include "app/worker/launch/launch.h"
#include "core/text.h"
#include "core/trace/trace_file.h"

namespace assay::worker {

using nlohmann::json;

namespace {

// Everything by default, except that operators are recorded only where they are the trace: on the
// CPU. An array of names chooses.
CollectSet collect_set(const json& names, bool cuda) {
  CollectSet set;
  set.operators = !cuda;
  if (names.is_null()) return set;
  const std::pair<const char*, bool CollectSet::*> parts[] = {
      {"operators", &CollectSet::operators},
      {"kernels", &CollectSet::kernels},
      {"copies", &CollectSet::copies},
      {"api", &CollectSet::api},
      {"driver", &CollectSet::driver},
      {"synchronization", &CollectSet::synchronization},
      {"overhead", &CollectSet::overhead},
      {"telemetry", &CollectSet::telemetry}};
  for (const auto& [name, member] : parts) set.*member = false;
  for (const json& wanted : names) {
    const auto part = std::find_if(
        std::begin(parts), std::end(parts), [&](const auto& p) { return wanted == p.first; });
    if (part == std::end(parts))
      bad_input("trace: nothing called {} can be collected", wanted.dump());
    set.*(part->second) = true;
  }
  return set;
}

} // namespace

void Launch::start_tracer(const json& trace) {
  const std::filesystem::path directory = trace.at("directory").get<std::string>();
  const auto launch = trace.at("launch").get<std::int64_t>();
  const int rank = ranks_ == nullptr ? 0 : ranks_->place().rank;
  TracerOptions options;
  for (const VariantSpec& spec : variants_)
    options.paths.push_back((directory / trace_file_name(launch, rank, spec.name)).string());
  options.cuda = reference().device == Device::Cuda;
  options.collect = collect_set(trace.value("collect", json()), options.cuda);
  options.gpu_uuid = gpu_uuid_;
  const std::string tracer = trace.value("tracer", "assay");
  if (tracer != "assay" && tracer != "kineto")
    bad_input("unknown tracer '{}'; this worker has assay and kineto", printable(tracer));
  tracer_ = tracer == "assay" ? make_tracer(options) : make_kineto_tracer(options);
  const CudaVersions cuda_versions = options.cuda ? worker::cuda_versions() : CudaVersions{};
  for (std::size_t i = 0; i < variants_.size(); ++i)
    for (const auto& [key, value] : std::initializer_list<std::pair<const char*, std::string>>{
             {"launch", std::to_string(launch)},
             {"rank", std::to_string(rank)},
             {"cell", trace.value("cell", "")},
             {"variant", variants_[i].name},
             {"level", variants_[i].level},
             {"optimization", optimization_.name},
             {"unit", unit_},
             {"device", options.cuda ? "cuda" : "cpu"},
             {"gpu_uuid", gpu_uuid_},
             {"cuda_runtime_version", cuda_versions.runtime},
             {"cuda_driver_version", cuda_versions.driver},
             {"program", "assay-worker"},
             {"seed", std::to_string(seed_)},
             {"config", to_json(variants_[i].config).dump()}})
      tracer_->describe(i, key, value);
}

// Which spans the nodes of the variants' CUDA graphs were captured in.
void Launch::describe_graphs() {
  for (std::size_t i = 0; i < replicas_.size(); ++i)
    if (const Trainer* trainer = replicas_[i].trainer.get();
        trainer != nullptr && trainer->graph_counts() != nullptr)
      tracer_->describe(i, "graph_nodes", to_text(trainer->graph_node_spans()));
}

json Launch::stop_trace() {
  if (!tracer_) bad_input("a {} launch records no trace", kind_);
  describe_graphs();
  json metrics = tracer_->finish();
  tracer_.reset();
  return {{"event", "trace_stopped"}, {"metrics", metrics}};
}

} // namespace assay::worker

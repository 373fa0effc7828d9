#include "app/worker/launch/tracer.h"

#include <optional>

#include "app/worker/launch/operator_recorder.h"
#include "core/result.h"
#include "core/span.h"
#include "profilers/trace/trace_session.h"

namespace assay::worker {

namespace {

using nlohmann::json;

class AssayTracer : public Tracer {
public:
  explicit AssayTracer(const TracerOptions& options) : operators_(options.collect.operators) {
    TraceOptions session;
    session.paths = options.paths;
    session.cuda = options.cuda;
    session.collect = options.collect;
    session.gpu_uuid = options.gpu_uuid;
    session_ = value_or_throw(TraceSession::start(session));
  }

  void begin_visit(std::size_t variant, int round, bool warmup) override {
    session_->begin_visit(variant, round, warmup);
    spans_.emplace(*session_);
    if (operators_) recorder_ = std::make_unique<OperatorRecorder>(*session_);
  }

  void unit(std::int64_t start, std::int64_t end, bool counted, std::int64_t tokens) override {
    session_->step(start, end, counted, tokens);
  }

  void end_visit() override {
    recorder_.reset();
    spans_.reset();
    session_->end_visit();
  }

  void describe(std::size_t variant, const std::string& key, const std::string& value) override {
    session_->set_info(variant, key, value);
  }

  json finish() override {
    const TraceSession::Summary summary = value_or_throw(session_->finish());
    session_.reset();
    json metrics = json::array();
    for (std::size_t i = 0; i < summary.audit.size(); ++i) {
      std::string failed;
      for (const AuditRow& row : summary.audit[i])
        if (!row.passed) failed += (failed.empty() ? "" : ", ") + row.check;
      metrics.push_back({{"variant", i},
                         {"path", "trace/audit_passed"},
                         {"unit", "bool"},
                         {"value", failed.empty() ? 1 : 0},
                         {"detail", failed}});
    }
    for (const auto& [path, value] :
         {std::pair("trace/rows", summary.rows), std::pair("trace/lost_records", summary.lost)})
      metrics.push_back({{"variant", nullptr},
                         {"path", path},
                         {"unit", "records"},
                         {"value", value},
                         {"detail", ""}});
    return metrics;
  }

private:
  bool operators_;
  std::unique_ptr<TraceSession> session_;
  std::optional<SpanSinkGuard> spans_;
  std::unique_ptr<OperatorRecorder> recorder_;
};

} // namespace

std::unique_ptr<Tracer> make_tracer(const TracerOptions& options) {
  return std::make_unique<AssayTracer>(options);
}

} // namespace assay::worker

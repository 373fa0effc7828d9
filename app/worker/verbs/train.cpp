// `assay train`: the trainer alone, with a progress line, a CSV log and checkpoints.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>

#include "app/number_checks.h"
#include "app/worker/launch/identity.h"
#include "app/worker/verbs/config_options.h"
#include "app/worker/verbs/train_checks.h"
#include "app/worker/worker.h"
#include "core/result.h"
#include "core/text.h"
#include "model/data/loader.h"
#include "model/layout/segments.h"
#include "model/training/checkpoint.h"
#include "model/training/trainer.h"

namespace assay::worker {

namespace {

constexpr int kIncomplete = 6; // exit code: stopped before the last step, a checkpoint was written

volatile std::sig_atomic_t interrupted = 0;

struct TrainOptions {
  ConfigOptions config;
  std::string out; // "": the default of output_directory()
  std::string resume;
  std::int64_t checkpoint_every = 500;
};

std::vector<Batch> next_batches(DataStream& stream, const TrainConfig& config, std::int64_t count) {
  std::vector<Batch> batches;
  for (std::int64_t i = 0; i < count; ++i) {
    batches.push_back(stream.next());
    prepare(batches.back(), config);
  }
  return batches;
}

// One line that is rewritten on a terminal, and every 25th step as a plain line in a pipe.
class ProgressLine {
public:
  explicit ProgressLine(std::int64_t total)
      : total_(total), terminal_(::isatty(STDERR_FILENO) != 0) {}
  void
  show(std::int64_t step, double loss, double grad_norm, double tokens_per_s, double seconds_left) {
    const auto now = std::chrono::steady_clock::now();
    const bool due = terminal_ ? now - last_ > std::chrono::milliseconds(200) : step % 25 == 0;
    if (!due && step != total_) return;
    last_ = now;
    fmt::print(stderr,
               "{}step {}/{}  loss {:.4f}  {:.0f} tokens/s  grad norm {:.3f}{}{}",
               terminal_ ? "\r\033[K" : "",
               step,
               total_,
               loss,
               tokens_per_s,
               grad_norm,
               seconds_left < 1 ? "" : "  ETA " + human_seconds(seconds_left),
               terminal_ ? "" : "\n");
    std::fflush(stderr);
  }
  void end() const {
    if (terminal_) fmt::print(stderr, "\n");
  }

private:
  std::int64_t total_;
  bool terminal_;
  std::chrono::steady_clock::time_point last_;
};

class LossLog {
public:
  LossLog(const std::string& path, bool append)
      : file_(std::fopen(path.c_str(), append ? "a" : "w")), path_(path) {
    if (file_ == nullptr) bad_input("cannot write {}: {}", path, std::strerror(errno));
    if (!append) fmt::print(file_.get(), "step,loss,grad_norm,lr,tokens_per_s,eval_loss\n");
  }
  void row(std::int64_t step,
           double loss,
           double grad_norm,
           double lr,
           double tokens_per_s,
           std::optional<double> eval_loss) {
    fmt::print(file_.get(),
               "{},{:.6f},{:.6f},{:.6g},{:.1f},{}\n",
               step,
               loss,
               grad_norm,
               lr,
               tokens_per_s,
               eval_loss ? fmt::format("{:.6f}", *eval_loss) : "");
    if (std::fflush(file_.get()) != 0)
      bad_input("cannot write {}: {}; see to that and resume from the last checkpoint",
                path_,
                std::strerror(errno));
  }

private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::unique_ptr<std::FILE, Close> file_;
  std::string path_;
};

class TrainRun {
public:
  explicit TrainRun(const TrainOptions& options) : options_(options) {
    options_.out = output_directory(options.out, options.resume);
    TrainConfig config;
    std::optional<Checkpoint> checkpoint;
    if (!options.resume.empty()) {
      checkpoint = value_or_throw(load_checkpoint(options.resume));
      config = checkpoint->meta.config;
    }
    config = options.config.apply(config);
    if (checkpoint) refuse_other_shape(config, checkpoint->meta.config, options.resume);
    config_ = value_or_throw(resolve(config));
    if (checkpoint && config_.steps < checkpoint->meta.step)
      bad_input("{} is at step {}, beyond --steps {}: give more steps, or an earlier checkpoint",
                options.resume,
                checkpoint->meta.step,
                config_.steps);
    if (config.vocab_size == 0) // not given: the preset's, or more if the tokenizer has more
      config_.vocab_size =
          std::max(config_.vocab_size, open_tokenizer(config_.tokenizer)->vocab_size());
    if (config_.data.empty())
      bad_input(
          "no training data: give --data PATH (a directory of text files, a text file or JSONL)");
    open_device(config_);
    set_threads(config_);
    source_ = open_data(config_);
    stream_ = std::make_unique<DataStream>(source_, config_, Split::Train);
    trainer_ = std::make_unique<Trainer>(config_);
    if (checkpoint) restore(*checkpoint);
    std::error_code error;
    std::filesystem::create_directories(options_.out, error);
    if (error) bad_input("cannot make {}: {}; choose another --out", options_.out, error.message());
  }

  int run() {
    std::signal(SIGINT, [](int) { interrupted = 1; });
    std::signal(SIGTERM, [](int) { interrupted = 1; });
    const std::int64_t first = trainer_->step_index();
    fmt::print(stderr,
               "{} parameters, {} to {} steps, {} documents, {}\n",
               model_size(config_).parameters,
               first,
               config_.steps,
               source_.corpus->size(),
               at_device());
    LossLog log(options_.out + "/train.csv",
                first > 0 && std::filesystem::exists(options_.out + "/train.csv"));
    ProgressLine progress(config_.steps);
    const auto start = std::chrono::steady_clock::now();
    std::string last_checkpoint = options_.resume;
    while (trainer_->step_index() < config_.steps && interrupted == 0) {
      const StepResult result = trainer_->step(next_batches(*stream_, config_, config_.accumulate));
      const std::int64_t step = trainer_->step_index();
      const double loss = result.loss();
      if (!std::isfinite(loss)) {
        progress.end();
        bad_input(
            "the loss is {} at step {}; {}. Lower --set lr=… or resume from an earlier checkpoint",
            loss,
            step,
            last_checkpoint.empty() ? "no checkpoint was written"
                                    : "the last checkpoint is " + last_checkpoint);
      }
      const double elapsed =
          std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      const double done = static_cast<double>(step - first);
      const double rate =
          done * static_cast<double>(config_.seq_len * config_.batch_rows * config_.accumulate) /
          elapsed;
      std::optional<double> eval_loss;
      if (step % config_.eval_interval == 0 || step == config_.steps)
        eval_loss = evaluate_held_out();
      log.row(step, loss, result.grad_norm(), result.lr, rate, eval_loss);
      progress.show(step,
                    loss,
                    result.grad_norm(),
                    rate,
                    elapsed / done * static_cast<double>(config_.steps - step));
      if (step % options_.checkpoint_every == 0 && step != config_.steps) last_checkpoint = save();
    }
    progress.end();
    return finish(first);
  }

private:
  int finish(std::int64_t first) {
    const std::string path =
        trainer_->step_index() > first || first == 0 ? save() : options_.resume;
    if (trainer_->step_index() < config_.steps) {
      fmt::print(stderr,
                 "interrupted at step {} of {}; continue with: assay train --resume {} --out {}\n",
                 trainer_->step_index(),
                 config_.steps,
                 path,
                 options_.out);
      return kIncomplete;
    }
    fmt::print("{}\n", path);
    return 0;
  }

  std::string at_device() const {
    return config_.device == Device::Cuda ? identity().gpu : identity().cpu;
  }

  void restore(const Checkpoint& checkpoint) {
    if (checkpoint.meta.tokenizer != source_.tokenizer->fingerprint())
      bad_input("{} was trained with another tokenizer ({}; given: {})",
                options_.resume,
                checkpoint.meta.tokenizer,
                source_.tokenizer->fingerprint());
    if (checkpoint.meta.corpus != source_.corpus->fingerprint())
      bad_input("{} was trained on other documents than {}; to go on exactly, give the same --data",
                options_.resume,
                config_.data);
    trainer_->load_state_tensors(checkpoint.tensors);
    trainer_->set_rng_state(checkpoint.meta.rng);
    trainer_->set_step_index(checkpoint.meta.step);
    stream_->seek(checkpoint.meta.data);
  }

  std::string save() {
    return save_checkpoint(options_.out + "/",
                           {config_,
                            trainer_->step_index(),
                            stream_->position(),
                            trainer_->rng_state(),
                            source_.tokenizer->fingerprint(),
                            source_.corpus->fingerprint()},
                           trainer_->state_tensors());
  }

  // The same held-out batches every time.
  double evaluate_held_out() {
    if (held_out_.empty()) {
      DataStream stream(source_, config_, Split::HeldOut);
      held_out_ = next_batches(stream, config_, config_.eval_batches);
    }
    return trainer_->evaluate(held_out_).nats_per_token;
  }

  TrainOptions options_;
  TrainConfig config_;
  DataSource source_;
  std::unique_ptr<DataStream> stream_;
  std::unique_ptr<Trainer> trainer_;
  std::vector<Batch> held_out_;
};

} // namespace

void add_train(CLI::App& parent, int& exit_code) {
  CLI::App* command = parent.add_subcommand(
      "train", "train a model alone, with checkpoints; Ctrl-C saves and stops");
  auto options = std::make_shared<TrainOptions>();
  options->config.add_to(*command);
  command
      ->add_option("--out",
                   options->out,
                   "directory of checkpoints and train.csv (default: runs/train, or where the "
                   "resumed checkpoint is)")
      ->type_name("DIR");
  command
      ->add_option(
          "--resume", options->resume, "checkpoint, or directory whose newest checkpoint is taken")
      ->type_name("PATH");
  command->add_option("--checkpoint-every", options->checkpoint_every, "steps between checkpoints")
      ->capture_default_str()
      ->check(whole_number(1));
  command->footer("examples\n"
                  "  assay train --data corpus --preset tiny --steps 200 --out runs/tiny\n"
                  "  assay train --resume runs/tiny          continue after Ctrl-C");
  command->callback([options, &exit_code] { exit_code = TrainRun(*options).run(); });
}

} // namespace assay::worker

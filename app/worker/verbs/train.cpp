// `assay train`: the trainer alone, with a progress line, a CSV log and checkpoints.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "app/command_line/parse.h"
#include "app/command_line/program.h"
#include "app/value_checks.h"
#include "app/worker/launch/identity.h"
#include "app/worker/launch/step_data.h"
#include "app/worker/verbs/config_options.h"
#include "app/worker/verbs/train_checks.h"
#include "app/worker/verbs/train_monitor.h"
#include "app/worker/verbs/train_output.h"
#include "app/worker/worker.h"
#include "core/files/shell_text.h"
#include "core/ledger/directory_lock.h"
#include "core/result.h"
#include "core/stopwatch.h"
#include "core/text.h"
#include "model/config/fast_defaults.h"
#include "model/data/loader.h"
#include "model/training/checkpoint.h"
#include "model/training/trainer.h"
#include "model/training/update/optimizer.h"
#include "profilers/monitor/train_rows.h"

namespace assay::worker {

namespace {

constexpr std::int64_t kCheckpointEvery = 500;

volatile std::sig_atomic_t interrupted = 0;

struct TrainOptions {
  ConfigOptions config;
  std::string out; // "": the default of output_directory()
  std::string resume;
  std::optional<std::int64_t> checkpoint_every;
  double monitor_seconds = 1; // between readings of the machine; 0: none
  bool json = false;
  const CLI::App* command = nullptr; // whose usage messages show
};

class TrainRun {
public:
  explicit TrainRun(const TrainOptions& options) : options_(options) {
    options_.out = output_directory(options.out, options.resume);
    // A training that goes on is named before what it has written so far.
    if (!lock_holder(options_.out).empty()) lock_ = lock_directory(options_.out);
    refuse_other_training(options_.out, options_.resume);
    TrainConfig config;
    std::optional<Checkpoint> checkpoint;
    if (!options.resume.empty()) {
      checkpoint = value_or_throw(load_checkpoint(options.resume));
      config = checkpoint->meta.config;
    }
    config = options.config.apply(config);
    if (checkpoint)
      refuse_other_shape(config, checkpoint->meta.config, options.resume);
    else
      config = with_defaults(config);
    config_ = value_or_throw(resolve(config));
    if (checkpoint) {
      check_schedule(checkpoint->meta);
      const std::string keys = changed_keys(config_, checkpoint->meta.config);
      if (!keys.empty() && checkpoint->meta.step < config_.steps)
        print_error(fmt::format("other keys than {} was trained with: {}; it goes on with them",
                                options.resume,
                                keys),
                    "warning");
    }
    checkpoint_every_ = options.checkpoint_every.value_or(
        checkpoint && checkpoint->meta.checkpoint_every > 0 ? checkpoint->meta.checkpoint_every
                                                            : kCheckpointEvery);
    if (config_.data.empty())
      refuse_missing(*options.command, {options.command->get_option("--data")});
    open_device(config_); // before anything that takes long
    if (!fallbacks_.empty()) print_note(fallbacks_text(fallbacks_));
    if (config.vocab_size == 0) // not given: the preset's, or more if the tokenizer has more
      config_.vocab_size =
          std::max(config_.vocab_size, open_tokenizer(config_.tokenizer)->vocab_size());
    set_process(config_);
    source_ = open_data(config_);
    if (const std::string warning = little_data(source_, config_); !warning.empty())
      print_error(warning, "warning");
    stream_ = std::make_unique<DataStream>(source_, config_, Split::Train);
    if (std::filesystem::exists(options_.out)) own_directory(); // a mistake before leaves no lock
    trainer_ = std::make_unique<Trainer>(config_);
    if (checkpoint) restore(*checkpoint);
    std::error_code error;
    std::filesystem::create_directories(options_.out, error);
    if (error) bad_input("cannot make {}: {}; choose another --out", options_.out, error.message());
    if (lock_ < 0) own_directory();
  }

  int run() {
    std::signal(SIGINT, [](int) { interrupted = 1; });
    std::signal(SIGTERM, [](int) { interrupted = 1; });
    const std::int64_t first = trainer_->step_index();
    print_start(first);
    TrainLog log(options_.out + "/" + kTrainLogName, first);
    std::unique_ptr<TrainMonitor> monitor;
    if (options_.monitor_seconds > 0)
      monitor = std::make_unique<TrainMonitor>(
          options_.out, first, options_.monitor_seconds, monitored_board());
    TrainProgressLine line;
    TrainProgress progress;
    progress.steps = config_.steps;
    progress.averaged = config_.ema_decay > 0;
    std::int64_t tokens = 0;
    const auto start = std::chrono::steady_clock::now();
    while (trainer_->step_index() < config_.steps && interrupted == 0) {
      const auto step_start = std::chrono::steady_clock::now();
      const std::vector<Batch> batches = next_batches(*stream_, config_, config_.accumulate);
      const double waited = seconds_since(step_start);
      const StepResult result = trainer_->step(batches);
      for (const Batch& batch : batches) tokens += batch.token_count();
      progress.step = trainer_->step_index();
      progress.loss = result.loss();
      if (!std::isfinite(progress.loss)) {
        line.end();
        refuse_loss(progress);
      }
      progress.grad_norm = result.grad_norm();
      progress.lr = result.lr;
      progress.data_wait = waited / seconds_since(step_start); // the loss has waited for the step
      if (config_.grad_scaler == GradScaler::Dynamic) {
        progress.loss_scale = trainer_->scaler().current_scale();
        progress.skipped_steps = trainer_->skipped_steps();
      }
      measure_speed(progress, first, tokens, start);
      if (monitor) progress.machine = monitor->take(progress.step);
      const bool evaluates =
          progress.step % config_.eval_interval == 0 || progress.step == config_.steps;
      if (evaluates) {
        progress.eval_loss = evaluate_held_out();
        progress.eval_step = progress.step;
      }
      log.row(progress, evaluates ? progress.eval_loss : std::nullopt);
      line.show(progress, evaluates);
      if (progress.step % checkpoint_every_ == 0 && progress.step != config_.steps)
        last_checkpoint_ = save();
    }
    line.end();
    return finish(first, progress);
  }

private:
  // Two trainings would overwrite each other. What one left that has just ended is looked at again.
  void own_directory() {
    if (lock_ < 0) lock_ = lock_directory(options_.out);
    refuse_other_training(options_.out, options_.resume);
  }

  // A checkpoint has a value of every key; a new training takes the fast levels that it can have.
  TrainConfig with_defaults(const TrainConfig& config) {
    std::vector<NamedConfig> own{{config, options_.config.named()}};
    fallbacks_ = take_fast_defaults(own, nullptr, compute_capability());
    return own.front().config;
  }

  // A schedule that ends elsewhere, or has another peak, gives other rates from here on.
  void check_schedule(const CheckpointMeta& meta) const {
    if (config_.steps < meta.step)
      bad_input("{} is at step {}, beyond --steps {}: give more steps, or an earlier checkpoint",
                options_.resume,
                meta.step,
                config_.steps);
    const double before = learning_rate(meta.config, meta.step),
                 now = learning_rate(config_, meta.step);
    if (now != before)
      print_error(fmt::format("the learning rate jumps from {:.6g} to {:.6g} at step {}: its "
                              "schedule was of {} steps and is of {}",
                              before,
                              now,
                              meta.step + 1,
                              meta.config.steps,
                              config_.steps),
                  "warning");
  }

  void print_start(std::int64_t first) const {
    const std::string skipped = source_.corpus->skipped().text();
    print_note(
        fmt::format("{} parameters, {} to {} steps, a checkpoint every {}, {} documents{}, {}",
                    model_size(config_).parameters,
                    first,
                    config_.steps,
                    checkpoint_every_,
                    source_.corpus->size(),
                    skipped.empty() ? "" : ", " + skipped,
                    config_.device == Device::Cuda ? identity().gpu : identity().cpu));
  }

  std::optional<std::string> monitored_board() const {
    if (config_.device != Device::Cuda) return std::nullopt;
    return identity().gpu_uuid;
  }

  [[noreturn]] void refuse_loss(const TrainProgress& progress) const {
    bad_input(
        "the loss is {} at step {}; {}. Lower --set lr=… or resume from an earlier checkpoint",
        progress.loss,
        progress.step,
        last_checkpoint_.empty() ? "no checkpoint was written"
                                 : "the last checkpoint is " + last_checkpoint_);
  }

  void measure_speed(TrainProgress& progress,
                     std::int64_t first,
                     std::int64_t tokens,
                     std::chrono::steady_clock::time_point start) const {
    const double elapsed = seconds_since(start);
    const auto done = static_cast<double>(progress.step - first);
    progress.tokens_per_second = static_cast<double>(tokens) / elapsed;
    progress.seconds_left = elapsed / done * static_cast<double>(config_.steps - progress.step);
  }

  void print_summary(const std::string& path, std::int64_t first, const TrainProgress& last) const {
    const bool stepped = trainer_->step_index() > first;
    nlohmann::json out = {{"schema_version", 1},
                          {"complete", trainer_->step_index() >= config_.steps},
                          {"checkpoint", path},
                          {"step", trainer_->step_index()},
                          {"steps", config_.steps},
                          {"loss", nullptr},
                          {"eval_loss", nullptr},
                          {"eval_step", nullptr},
                          {"tokens_per_second", nullptr}};
    if (stepped) out["loss"] = last.loss;
    if (stepped) out["tokens_per_second"] = last.tokens_per_second;
    if (last.eval_loss) {
      out["eval_loss"] = *last.eval_loss;
      out["eval_step"] = last.eval_step;
    }
    fmt::print("{}\n", out.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  }

  int finish(std::int64_t first, const TrainProgress& last) {
    const std::string path =
        trainer_->step_index() > first || first == 0 ? save() : last_checkpoint_;
    if (options_.json) print_summary(path, first, last);
    if (trainer_->step_index() < config_.steps) {
      print_note(fmt::format(
          "interrupted at step {} of {}; to continue:", trainer_->step_index(), config_.steps));
      print_note_command(fmt::format(
          "assay train --resume {} --out {}", shell_word(path), shell_word(options_.out)));
      return kIncomplete;
    }
    if (trainer_->step_index() == first)
      print_note(fmt::format("nothing left to do: the checkpoint is at step {} of {}; to train on, "
                             "give a greater --steps",
                             first,
                             config_.steps));
    if (!options_.json) fmt::print("{}\n", printable(path));
    return kOk;
  }

  void restore(const Checkpoint& checkpoint) {
    if (checkpoint.meta.tokenizer != source_.tokenizer->fingerprint())
      bad_input("{} was trained with another tokenizer ({}; given: {})",
                options_.resume,
                checkpoint.meta.tokenizer,
                source_.tokenizer->fingerprint());
    if (checkpoint.meta.corpus != source_.corpus->fingerprint())
      bad_input(
          "{} was trained on other documents than {}; to continue exactly, give the same --data",
          options_.resume,
          config_.data);
    trainer_->load_state_tensors(checkpoint.tensors);
    trainer_->set_rng_state(checkpoint.meta.rng);
    trainer_->set_step_index(checkpoint.meta.step);
    stream_->seek(checkpoint.meta.data);
    last_checkpoint_ = checkpoint.path;
  }

  std::string save() {
    return save_checkpoint(options_.out + "/",
                           {config_,
                            trainer_->step_index(),
                            stream_->position(),
                            trainer_->rng_state(),
                            source_.tokenizer->fingerprint(),
                            source_.corpus->fingerprint(),
                            checkpoint_every_},
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
  std::vector<Fallback> fallbacks_; // defaults that this training cannot have
  int lock_ = -1;                   // of the output directory, until the process ends
  TrainConfig config_;
  std::int64_t checkpoint_every_ = kCheckpointEvery;
  std::string last_checkpoint_; // "": none yet
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
  options->command = command;
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
  command
      ->add_option("--checkpoint-every",
                   options->checkpoint_every,
                   fmt::format("steps between checkpoints (default: {}, or the resumed training's)",
                               kCheckpointEvery))
      ->check(whole_number(1));
  command
      ->add_option("--monitor",
                   options->monitor_seconds,
                   "seconds between the readings of the machine in monitor.csv (default: 1; 0: "
                   "none)")
      ->type_name("SECONDS")
      ->check(seconds_or_none());
  command->add_flag("--json", options->json, "print a summary as JSON");
  command->footer("examples\n"
                  "  assay train --data corpus --preset tiny --steps 200 --out runs/tiny\n"
                  "  assay train --resume runs/tiny          continue after Ctrl-C");
  command->callback([options, &exit_code] { exit_code = TrainRun(*options).run(); });
}

} // namespace assay::worker

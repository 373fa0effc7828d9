// Verdict: four fields, and the one ordered truth table that turns them into a sentence. Report,
// command line and viewer show this sentence and no other.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "experiments/evidence/reason.h"

namespace assay {

enum class Validity {
  Ok,
  Invalid,      // unequal work, or the A/A control alarms
  Contended,    // other work on the machine disturbed too many pairs
  ParityFailed, // the levels do not compute what their equivalence class promises
  NotEngaged,   // a level did not run its own code path
  Incomplete,   // something is still missing from the plan
};
enum class Speed { Faster, Slower, NoEffect, Inconclusive };
enum class Quality { Bitwise, Equivalent, Unknown, Harmed };
enum class ClaimState {
  Confirmed,
  Consistent,
  Shortfall,
  Refuted,
  Opposite,
  Undecided,
  ConditionsNotMet,
  NotTested
};
enum class Tag { NoOp, Tail, Provisional, NotSteady, Exceeds };

// Good is shown green, Bad red. Good needs an unharmed training; Mixed is a true gain that misses
// its claim, or a claim kept at a cost.
enum class Tone { Good, Mixed, Neutral, Bad };

struct Verdict {
  Validity validity = Validity::Incomplete;
  Speed speed = Speed::Inconclusive;
  Quality quality = Quality::Unknown;
  ClaimState claim = ClaimState::NotTested;
  std::string claim_about; // "memory", "loss"; "": time, or the claim was not judged
  std::vector<Tag> tags;
  std::vector<Reason> reasons; // most important first

  bool has(Tag tag) const;
};

struct Headline {
  std::string text; // "faster, quality unproven"
  Tone tone = Tone::Neutral;
};

// First matching row of the table. Tags do not change the row, except NO_OP ("no effect, the same
// work on both sides"); PROVISIONAL is appended. Both are about times, so harm shows neither.
Headline headline(const Verdict& verdict);

// The constants of docs/report-schema.md: "NO_EFFECT", "PARITY_FAILED" …
std::string_view to_string(Validity value);
std::string_view to_string(Speed value);
std::string_view to_string(Quality value);
std::string_view to_string(ClaimState value);
std::string_view to_string(Tag value);
std::string_view to_string(Tone value);

} // namespace assay

#include "experiments/evidence/verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

namespace assay {

namespace {

// A row matches when every field it names is equal; an absent field matches everything.
struct Row {
  std::optional<Validity> validity;
  std::optional<Speed> speed;
  std::optional<Quality> quality;
  std::optional<ClaimState> claim;
  const char* text;  // where the claim is of time, or none was judged
  const char* about; // where it is of memory or loss, which {} names; nullptr: the same text
  Tone tone;
};

constexpr std::nullopt_t kAny = std::nullopt;

// Order matters: what makes a measurement meaningless comes first, then harm, then what is missing,
// then the effect. Below the line that tests Validity::Ok no measurement is in doubt.
using V = Validity;
using S = Speed;
using Q = Quality;
using C = ClaimState;
const std::array kRows = std::to_array<Row>({
    {V::ParityFailed,
     kAny,
     kAny,
     kAny,
     "rejected: not shown to compute the same",
     nullptr,
     Tone::Bad},
    {V::NotEngaged,
     kAny,
     kAny,
     kAny,
     "not engaged: a level's own code did not always run",
     nullptr,
     Tone::Neutral},
    {kAny, kAny, Q::Harmed, kAny, "harms training", nullptr, Tone::Bad},
    {V::Invalid, kAny, kAny, kAny, "invalid measurement", nullptr, Tone::Neutral},
    {V::Contended,
     kAny,
     kAny,
     kAny,
     "no verdict: the machine was disturbed",
     nullptr,
     Tone::Neutral},
    {V::Incomplete, kAny, kAny, kAny, "incomplete", nullptr, Tone::Neutral},
    // From here on validity is OK and training is not known to be harmed.
    {kAny,
     S::Faster,
     Q::Unknown,
     C::Confirmed,
     "faster as claimed, quality unproven",
     "faster, {} claim confirmed, quality unproven",
     Tone::Neutral},
    {kAny,
     S::Faster,
     Q::Unknown,
     C::Consistent,
     "faster, consistent with the claim, quality unproven",
     "faster, consistent with the {} claim, quality unproven",
     Tone::Neutral},
    {kAny,
     S::Faster,
     Q::Unknown,
     C::Shortfall,
     "faster, less than claimed, quality unproven",
     "faster, less than the {} claim, quality unproven",
     Tone::Neutral},
    {kAny,
     S::Faster,
     Q::Unknown,
     C::Refuted,
     "faster, claim refuted, quality unproven",
     "faster, {} claim refuted, quality unproven",
     Tone::Mixed},
    {kAny,
     S::Faster,
     Q::Unknown,
     C::Opposite,
     "faster, the opposite of the claim, quality unproven",
     "faster, the opposite of the {} claim, quality unproven",
     Tone::Mixed},
    {kAny, S::Faster, Q::Unknown, kAny, "faster, quality unproven", nullptr, Tone::Neutral},
    {kAny,
     S::Faster,
     kAny,
     C::Confirmed,
     "faster, claim confirmed",
     "faster, {} claim confirmed",
     Tone::Good},
    {kAny,
     S::Faster,
     kAny,
     C::Consistent,
     "faster, consistent with the claim",
     "faster, consistent with the {} claim",
     Tone::Good},
    {kAny,
     S::Faster,
     kAny,
     C::Shortfall,
     "faster, less than claimed",
     "faster, less than the {} claim",
     Tone::Mixed},
    {kAny,
     S::Faster,
     kAny,
     C::Refuted,
     "faster, claim refuted",
     "faster, {} claim refuted",
     Tone::Mixed},
    {kAny,
     S::Faster,
     kAny,
     C::Opposite,
     "faster, the opposite of the claim",
     "faster, the opposite of the {} claim",
     Tone::Mixed},
    {kAny, S::Faster, kAny, C::Undecided, "faster, claim undecided", nullptr, Tone::Good},
    {kAny,
     S::Faster,
     kAny,
     C::ConditionsNotMet,
     "faster, claim's conditions not met",
     nullptr,
     Tone::Good},
    {kAny, S::Faster, kAny, C::NotTested, "faster", nullptr, Tone::Good},
    {kAny,
     S::Slower,
     kAny,
     C::Confirmed,
     "slower, claim confirmed",
     "slower, {} claim confirmed",
     Tone::Mixed},
    {kAny,
     S::Slower,
     kAny,
     C::Consistent,
     "slower, consistent with the claim",
     "slower, consistent with the {} claim",
     Tone::Mixed},
    {kAny,
     S::Slower,
     kAny,
     C::Shortfall,
     "slower, less than claimed",
     "slower, less than the {} claim",
     Tone::Bad},
    {kAny,
     S::Slower,
     kAny,
     C::Refuted,
     "slower, claim refuted",
     "slower, {} claim refuted",
     Tone::Bad},
    {kAny,
     S::Slower,
     kAny,
     C::Opposite,
     "slower, the opposite of the claim",
     "slower, the opposite of the {} claim",
     Tone::Bad},
    {kAny, S::Slower, kAny, C::Undecided, "slower, claim undecided", nullptr, Tone::Bad},
    {kAny,
     S::Slower,
     kAny,
     C::ConditionsNotMet,
     "slower, claim's conditions not met",
     nullptr,
     Tone::Bad},
    {kAny, S::Slower, kAny, C::NotTested, "slower", nullptr, Tone::Bad},
    {kAny,
     S::NoEffect,
     Q::Unknown,
     C::Confirmed,
     "no effect on time, claim confirmed, quality unproven",
     "no effect on time, {} claim confirmed, quality unproven",
     Tone::Neutral},
    {kAny,
     S::NoEffect,
     kAny,
     C::Confirmed,
     "no effect on time, claim confirmed",
     "no effect on time, {} claim confirmed",
     Tone::Good},
    {kAny,
     S::NoEffect,
     kAny,
     C::Consistent,
     "no effect on time, consistent with the claim",
     "no effect on time, consistent with the {} claim",
     Tone::Neutral},
    {kAny,
     S::NoEffect,
     kAny,
     C::Shortfall,
     "no effect on time, less than claimed",
     "no effect on time, less than the {} claim",
     Tone::Mixed},
    {kAny,
     S::NoEffect,
     kAny,
     C::Refuted,
     "no effect, claim refuted",
     "no effect, {} claim refuted",
     Tone::Bad},
    {kAny,
     S::NoEffect,
     kAny,
     C::Opposite,
     "no effect on time, the opposite of the claim",
     "no effect on time, the opposite of the {} claim",
     Tone::Bad},
    {kAny,
     S::NoEffect,
     kAny,
     C::Undecided,
     "no effect on time, claim undecided",
     nullptr,
     Tone::Neutral},
    {kAny,
     S::NoEffect,
     kAny,
     C::ConditionsNotMet,
     "no effect, claim's conditions not met",
     nullptr,
     Tone::Neutral},
    {kAny, S::NoEffect, kAny, C::NotTested, "no effect", nullptr, Tone::Neutral},
    {kAny,
     S::Inconclusive,
     Q::Unknown,
     C::Confirmed,
     "time inconclusive, claim confirmed, quality unproven",
     "time inconclusive, {} claim confirmed, quality unproven",
     Tone::Neutral},
    {kAny,
     S::Inconclusive,
     kAny,
     C::Confirmed,
     "time inconclusive, claim confirmed",
     "time inconclusive, {} claim confirmed",
     Tone::Good},
    {kAny,
     S::Inconclusive,
     kAny,
     C::Consistent,
     "time inconclusive, consistent with the claim",
     "time inconclusive, consistent with the {} claim",
     Tone::Neutral},
    {kAny,
     S::Inconclusive,
     kAny,
     C::Shortfall,
     "time inconclusive, less than claimed",
     "time inconclusive, less than the {} claim",
     Tone::Mixed},
    {kAny,
     S::Inconclusive,
     kAny,
     C::Refuted,
     "time inconclusive, claim refuted",
     "time inconclusive, {} claim refuted",
     Tone::Bad},
    {kAny,
     S::Inconclusive,
     kAny,
     C::Opposite,
     "time inconclusive, the opposite of the claim",
     "time inconclusive, the opposite of the {} claim",
     Tone::Bad},
    {kAny,
     S::Inconclusive,
     kAny,
     C::Undecided,
     "inconclusive, claim undecided",
     nullptr,
     Tone::Neutral},
    {kAny,
     S::Inconclusive,
     kAny,
     C::ConditionsNotMet,
     "inconclusive, claim's conditions not met",
     nullptr,
     Tone::Neutral},
    {kAny, S::Inconclusive, kAny, C::NotTested, "inconclusive", nullptr, Tone::Neutral},
});

bool matches(const Row& row, const Verdict& verdict) {
  return (!row.validity || *row.validity == verdict.validity) &&
         (!row.speed || *row.speed == verdict.speed) &&
         (!row.quality || *row.quality == verdict.quality) &&
         (!row.claim || *row.claim == verdict.claim);
}

} // namespace

bool Verdict::has(Tag tag) const {
  return std::find(tags.begin(), tags.end(), tag) != tags.end();
}

Headline headline(const Verdict& verdict) {
  const auto row = std::find_if(kRows.begin(), kRows.end(), [&](const Row& candidate) {
    return matches(candidate, verdict);
  });
  // The last rows cover every speed and claim.
  Headline result{row->text, row->tone};
  if (!verdict.claim_about.empty() && row->about != nullptr)
    result.text = fmt::format(fmt::runtime(row->about), verdict.claim_about);
  if (verdict.validity != Validity::Ok || verdict.quality == Quality::Harmed) return result;
  if (verdict.has(Tag::NoOp)) result.text += ", both sides do the same work";
  if (verdict.has(Tag::Exceeds)) result.text += ", more than claimed";
  if (verdict.has(Tag::Provisional)) result.text += " (provisional)";
  return result;
}

std::string_view to_string(Validity value) {
  constexpr std::string_view kNames[] = {
      "OK", "INVALID", "CONTENDED", "PARITY_FAILED", "NOT_ENGAGED", "INCOMPLETE"};
  return kNames[static_cast<int>(value)];
}

std::string_view to_string(Speed value) {
  constexpr std::string_view kNames[] = {"FASTER", "SLOWER", "NO_EFFECT", "INCONCLUSIVE"};
  return kNames[static_cast<int>(value)];
}

std::string_view to_string(Quality value) {
  constexpr std::string_view kNames[] = {"BITWISE", "EQUIVALENT", "UNKNOWN", "HARMED"};
  return kNames[static_cast<int>(value)];
}

std::string_view to_string(ClaimState value) {
  constexpr std::string_view kNames[] = {"CONFIRMED",
                                         "CONSISTENT",
                                         "SHORTFALL",
                                         "REFUTED",
                                         "OPPOSITE",
                                         "UNDECIDED",
                                         "CONDITIONS_NOT_MET",
                                         "NOT_TESTED"};
  return kNames[static_cast<int>(value)];
}

std::string_view to_string(Tag value) {
  constexpr std::string_view kNames[] = {"NO_OP", "TAIL", "PROVISIONAL", "NOT_STEADY", "EXCEEDS"};
  return kNames[static_cast<int>(value)];
}

std::string_view to_string(Tone value) {
  constexpr std::string_view kNames[] = {"good", "mixed", "neutral", "bad"};
  return kNames[static_cast<int>(value)];
}

} // namespace assay

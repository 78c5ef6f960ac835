// my-policy: orders the queue so that short jobs overtake, but not for ever.
//
// The key of a job is its time of submission plus `weight` times its requested duration. A job that has waited that much
// longer comes first again.
#include "fluxgate.hpp"

namespace {

constexpr fg_key settings[] = {
    {FG_TEXT("weight"), FG_FLOAT, FG_TEXT("1"),
     FG_TEXT("seconds of waiting that one second of duration is worth, 0 or more")},
};
constexpr fg_description description = {
    FG_TEXT("my-policy"), FG_TEXT("0.1.0"), FG_TEXT("Short jobs first, but no job waits for ever"), settings, 1,
};

/// Seconds of waiting that one second of duration is worth.
double weight = 1.0;

fg_text configure(const fg_setting *given, size_t count) {
    if (!fluxgate::Settings(given, count).number("weight", 0.0, 1e300, weight))
        return fluxgate::Text("`weight` must be 0 or more");
    return FG_ACCEPT;
}

void keys(double, const fg_jobs *jobs, double *key) {
    for (size_t i = 0; i < jobs->length; i++) {
        // A job without limit has an infinite duration, and 0 times that is not a number.
        double worth = weight == 0.0 ? 0.0 : weight * jobs->duration[i];
        key[i] = jobs->t_submit[i] + worth;
    }
}

}  // namespace

FG_POLICY(description, configure)
FG_ORDERING(keys)
// Other abilities: FG_SCHEDULING(run), FG_OBSERVING(observe), FG_STATE(save, restore), FG_RANKING(scores); see sdk/fluxgate.h.

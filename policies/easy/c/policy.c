/* The policy `easy` in C; the rule is in ../README.md, the same in Rust in ../src and guest-sdk/src/backfill.rs. */
#include "fluxgate.h"

/* Heads without any start time that are passed over in one pass. */
enum { PASSED_OVER_MAX = 64, DEPTH_MAX = 1000 };

static const fg_key keys[] = {
    {FG_TEXT("depth"), FG_INTEGER, FG_TEXT("1"), FG_TEXT("how many waiting jobs have a reservation, 1 to 1000")},
};
static const fg_description description = {
    FG_TEXT("easy-c"),
    FG_TEXT("0.1.0"),
    FG_TEXT("EASY backfilling in C: what does not delay the first waiting job may start before it"),
    keys,
    1,
};

/* Number of waiting jobs that get a reservation in one pass. */
static uint32_t depth = 1;

static fg_text configure(const fg_setting *settings, size_t count) {
    int64_t value;
    if (count != 1 || !fg_integer(settings[0].value, &value) || value < 1 || value > DEPTH_MAX)
        return FG_TEXT("`depth` must be between 1 and 1000");
    depth = (uint32_t)value;
    return FG_ACCEPT;
}

/* Until `depth` jobs have a reservation: start the next, else reserve its earliest start. False when the pass is over. */
static bool heads(void) {
    uint32_t reserved = 0, passed_over = 0;
    while (reserved < depth && passed_over < PASSED_OVER_MAX) {
        uint32_t job = fg_next();
        if (job == FG_NONE) return false;
        double start;
        switch (fg_start(job)) {
        case FG_BUSY:
        case FG_DELAYS_RESERVATION:
            switch (fg_reserve(job, &start)) {
            case FG_OK:
                if (__builtin_isfinite(start)) reserved++;
                else passed_over++;
                break;
            case FG_LIMIT:
                return true;
            default:
                passed_over++;
            }
            break;
        case FG_LIMIT:
            return false;
        default:
            break;
        }
    }
    return true;
}

static void run(void) {
    if (!heads()) return;
    for (uint32_t job = fg_next_fitting(); job != FG_NONE; job = fg_next_fitting())
        if (fg_start(job) == FG_LIMIT) return;
}

FG_POLICY(description, configure)
FG_SCHEDULING(run)

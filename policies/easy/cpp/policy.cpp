// The policy `easy` in C++; the rule is in ../README.md, the same in Rust in ../src and guest-sdk/src/backfill.rs.
#include "fluxgate.hpp"

namespace {

// Heads without any start time that are passed over in one pass.
constexpr int passed_over_max = 64;
constexpr int64_t depth_max = 1000;

constexpr fg_key keys[] = {
    {FG_TEXT("depth"), FG_INTEGER, FG_TEXT("1"), FG_TEXT("how many waiting jobs have a reservation, 1 to 1000")},
};
constexpr fg_description description = {
    FG_TEXT("easy-cpp"),
    FG_TEXT("0.1.0"),
    FG_TEXT("EASY backfilling in C++: what does not delay the first waiting job may start before it"),
    keys,
    1,
};

// Number of waiting jobs that get a reservation in one pass.
int64_t depth = 1;

fg_text configure(const fg_setting *settings, size_t count) {
    if (!fluxgate::Settings(settings, count).integer("depth", 1, depth_max, depth))
        return FG_TEXT("`depth` must be between 1 and 1000");
    return FG_ACCEPT;
}

// Until `depth` jobs have a reservation: start the next, else reserve its earliest start. False when the pass is over.
bool heads() {
    int64_t reserved = 0;
    int passed_over = 0;
    for (uint32_t job : fluxgate::candidates()) {
        fg_refusal refusal = fluxgate::start(job);
        if (refusal == FG_LIMIT) return false;
        if (refusal == FG_BUSY || refusal == FG_DELAYS_RESERVATION) {
            fluxgate::Reserved reservation = fluxgate::reserve(job);
            if (reservation.refusal == FG_LIMIT) return true;
            if (reservation.refusal == FG_OK && __builtin_isfinite(reservation.start)) reserved++;
            else passed_over++;
            if (reserved == depth || passed_over == passed_over_max) return true;
        }
    }
    return false;
}

void run() {
    if (!heads()) return;
    for (uint32_t job : fluxgate::fitting())
        if (fluxgate::start(job) == FG_LIMIT) return;
}

}  // namespace

FG_POLICY(description, configure)
FG_SCHEDULING(run)

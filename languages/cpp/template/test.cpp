// Tests of policy.cpp, compiled for this machine: the policy is ordinary C++.
#undef NDEBUG
#include <assert.h>
#include <stdio.h>

#include "policy.cpp"

static void set(fluxgate::Text value, bool accepted) {
    fg_setting setting = {FG_TEXT("weight"), value};
    assert((configure(&setting, 1).length == 0) == accepted);
}

int main() {
    const double t_submit[] = {0.0, 50.0, 95.0};
    double duration[] = {100.0, 10.0, 10.0}, key[3];
    fg_jobs jobs = {};
    jobs.length = 3;
    jobs.t_submit = t_submit;
    jobs.duration = duration;

    // A short job overtakes until the long one has waited.
    set("1", true);
    keys(0.0, &jobs, key);
    assert(key[1] < key[0] && key[0] < key[2]);

    // Without weight it is first come, first served.
    set("0", true);
    duration[0] = __builtin_inf();
    keys(0.0, &jobs, key);
    assert(key[0] < key[1] && key[1] < key[2]);

    set("-1", false);
    set("inf", false);
    set("much", false);
    puts("3 tests passed");
    return description.key_count == 1 ? 0 : 1;
}

/* Tests of policy.c, compiled for this machine: the policy is ordinary C. */
#undef NDEBUG
#include <assert.h>
#include <stdio.h>

#include "fluxgate.c"
#include "policy.c"

static void set(const char *value, size_t length, bool accepted) {
    fg_setting setting = {FG_TEXT("weight"), {value, length}};
    assert((configure(&setting, 1).length == 0) == accepted);
}

int main(void) {
    const double t_submit[] = {0.0, 50.0, 95.0};
    double duration[] = {100.0, 10.0, 10.0}, key[3];
    const fg_jobs jobs = {.length = 3, .t_submit = t_submit, .duration = duration};

    /* A short job overtakes until the long one has waited. */
    set("1", 1, true);
    keys(0.0, &jobs, key);
    assert(key[1] < key[0] && key[0] < key[2]);

    /* Without weight it is first come, first served. */
    set("0", 1, true);
    duration[0] = __builtin_inf();
    keys(0.0, &jobs, key);
    assert(key[0] < key[1] && key[1] < key[2]);

    set("-1", 2, false);
    set("inf", 3, false);
    set("much", 4, false);
    puts("3 tests passed");
    return description.key_count == 1 ? 0 : 1;
}

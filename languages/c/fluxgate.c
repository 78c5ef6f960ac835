/* What stands between a policy in C and the host: memory, and the canonical ABI of `fluxgate:policy@0.1.0`.
 *
 * SPDX-License-Identifier: Apache-2.0
 *
 * Records of the header have the layout that the ABI wants, so most of them cross as they are.
 */
#include "fluxgate.h"

/* ---- Numbers ---- */

bool fg_integer(fg_text text, int64_t *value) {
    size_t i = text.length > 0 && text.at[0] == '-';
    if (i == text.length) return false;
    uint64_t sum = 0, most = i ? (uint64_t)INT64_MAX + 1 : INT64_MAX;
    bool negative = i;
    for (; i < text.length; i++) {
        unsigned digit = (unsigned char)text.at[i] - '0';
        if (digit > 9 || sum > (most - digit) / 10) return false;
        sum = sum * 10 + digit;
    }
    *value = (int64_t)(negative ? -sum : sum);
    return true;
}

bool fg_float(fg_text text, double *value) {
    size_t i = text.length > 0 && text.at[0] == '-';
    double sign = i ? -1.0 : 1.0;
    if (text.length - i == 3 && text.at[i] == 'i' && text.at[i + 1] == 'n' && text.at[i + 2] == 'f') {
        *value = sign * __builtin_inf();
        return true;
    }
    /* Digits as one number and a power of ten: exact up to 2^53, and off by a rounding beyond. */
    double digits = 0.0, scale = 1.0;
    bool any = false, fraction = false;
    for (; i < text.length; i++) {
        if (text.at[i] == '.' && !fraction) {
            fraction = true;
            continue;
        }
        int digit = text.at[i] - '0';
        if (digit < 0 || digit > 9) return false;
        digits = digits * 10.0 + digit;
        if (fraction) scale *= 10.0;
        any = true;
    }
    *value = sign * digits / scale;
    return any;
}

#ifdef __wasm__

/* ---- Memory: blocks of powers of two, each size with a list of free ones ---- */

enum { SMALLEST = 4, LARGEST = 31 }; /* 16 bytes to 2 GiB, with the header */

/* Before each block; keeps what follows aligned to 8. */
typedef struct header {
    uint32_t size; /* a power of two, as its exponent */
    struct header *next;
} header;

static header *free_blocks[LARGEST + 1];
extern unsigned char __heap_base;
static uintptr_t heap_end;

void *fg_alloc(size_t bytes) {
    if (bytes == 0) return NULL;
    uint32_t size = SMALLEST;
    while (((size_t)1 << size) - sizeof(header) < bytes)
        if (++size > LARGEST) __builtin_trap();
    header *block = free_blocks[size];
    if (block) {
        free_blocks[size] = block->next;
        return block + 1;
    }
    if (!heap_end) heap_end = ((uintptr_t)&__heap_base + 15) & ~(uintptr_t)15;
    uint64_t end = (uint64_t)heap_end + ((uint64_t)1 << size);
    uint64_t there = (uint64_t)__builtin_wasm_memory_size(0) << 16;
    if (end > there) {
        size_t pages = (end - there + 65535) >> 16;
        if (end > UINT32_MAX || __builtin_wasm_memory_grow(0, pages) == (size_t)-1) __builtin_trap();
    }
    block = (header *)heap_end;
    heap_end = (uintptr_t)end;
    block->size = size;
    return block + 1;
}

void fg_free(void *memory) {
    /* Constants are never freed, and an empty value from the host may have any address. */
    if ((uintptr_t)memory <= (uintptr_t)&__heap_base) return;
    header *block = (header *)memory - 1;
    block->next = free_blocks[block->size];
    free_blocks[block->size] = block;
}

/* How the host gets room for what it hands over. No alignment in the contract is above 8. */
__attribute__((export_name("cabi_realloc"))) void *fg_abi_realloc(void *old, size_t old_bytes, size_t align,
                                                                   size_t bytes) {
    if (bytes == 0) return (void *)align;
    unsigned char *made = fg_alloc(bytes);
    if (old_bytes > 0) {
        __builtin_memcpy(made, old, old_bytes < bytes ? old_bytes : bytes);
        fg_free(old);
    }
    return made;
}

/* ---- Questions ---- */

#define IMPORT(interface, name)                                                                                        \
    __attribute__((import_module("fluxgate:policy/" interface "@0.1.0"), import_name(name))) extern

IMPORT("log", "write") void abi_log(uint32_t, const char *, size_t);
IMPORT("machine", "totals") void abi_totals(fg_totals *);
IMPORT("machine", "queue-count") uint32_t abi_queue_count(void);
IMPORT("machine", "queue-name") void abi_queue_name(uint32_t, fg_text *);
IMPORT("pass", "now") double abi_now(void);
IMPORT("pass", "queue") uint32_t abi_queue(void);
IMPORT("pass", "next") uint32_t abi_next(void);
IMPORT("pass", "next-fitting") uint32_t abi_next_fitting(void);
IMPORT("pass", "rewind") void abi_rewind(void);
IMPORT("pass", "describe") void abi_describe(uint32_t, fg_job *);
IMPORT("pass", "fits") uint32_t abi_fits(uint32_t);
IMPORT("pass", "earliest") double abi_earliest(uint32_t);
IMPORT("pass", "start") void abi_start(uint32_t, uint8_t *);
IMPORT("pass", "start-placed") void abi_start_placed(uint32_t, uint32_t, uint8_t *);
IMPORT("pass", "reserve") void abi_reserve(uint32_t, void *);
IMPORT("pass", "placement") void abi_placement(const char *, size_t, uint32_t *);
IMPORT("pass", "annotate") void abi_annotate(uint32_t, const char *, size_t, const char *, size_t);
IMPORT("pass", "rekey") void abi_rekey(uint32_t);
IMPORT("pass", "wake-at") void abi_wake_at(double);

IMPORT("many", "next") void abi_next_many(uint32_t, void *);
IMPORT("many", "start-or-reserve") void abi_start_or_reserve(const uint32_t *, size_t, void *);
IMPORT("many", "start-or-reserve-next") uint32_t abi_start_or_reserve_next(uint32_t, uint32_t);
IMPORT("many", "backfill") uint32_t abi_backfill(uint32_t, uint32_t, uint32_t);
IMPORT("many", "renew") void abi_renew(uint32_t, void *);
IMPORT("groups", "heads") void abi_heads(uint32_t, uint32_t, uint32_t, uint32_t, void *);
IMPORT("groups", "changed") void abi_changed_groups(uint32_t, void *);
IMPORT("groups", "next") void abi_next_in_group(uint32_t, uint32_t, void *);
IMPORT("flow", "kinds") void abi_flow_kinds(void *);
IMPORT("flow", "asked") void abi_flow_asked(const uint32_t *, size_t, void *);
IMPORT("flow", "spans") void abi_flow_spans(uint32_t, void *);
IMPORT("flow", "earliest-after") double abi_earliest_after(uint32_t, double);
IMPORT("flow", "reserve-after") void abi_reserve_after(uint32_t, double, void *);
IMPORT("resources", "kinds") void abi_resource_kinds(void *);
IMPORT("resources", "asked") void abi_resources_asked(const uint32_t *, size_t, void *);
IMPORT("attributes", "text") void abi_attribute_texts(const char *, size_t, const uint32_t *, size_t, void *);
IMPORT("attributes", "numbers") void abi_attribute_numbers(const char *, size_t, const uint32_t *, size_t, void *);

_Static_assert(sizeof(fg_group_head) == 72, "the layout of the ABI");
_Static_assert(sizeof(fg_row) == 56 && sizeof(fg_kind) == 32 && sizeof(fg_span) == 24, "the layout of the ABI");
_Static_assert(sizeof(fg_quantity) == 24 && sizeof(fg_node) == 36, "the layout of the ABI");
_Static_assert(sizeof(fg_job) == 48 && sizeof(fg_event) == 32 && sizeof(fg_key) == 28, "the layout of the ABI");

/* A result is a byte that says which, then the value. */
static fg_refusal refusal(const uint8_t answer[2]) { return answer[0] ? (fg_refusal)(FG_BUSY + answer[1]) : FG_OK; }

void fg_log(fg_level level, fg_text message) { abi_log(level, message.at, message.length); }

fg_totals fg_machine_totals(void) {
    fg_totals totals;
    abi_totals(&totals);
    return totals;
}

uint32_t fg_queue_count(void) { return abi_queue_count(); }

fg_text fg_queue_name(uint32_t index) {
    fg_text name;
    abi_queue_name(index, &name);
    return name;
}

double fg_now(void) { return abi_now(); }
uint32_t fg_queue(void) { return abi_queue(); }
uint32_t fg_next(void) { return abi_next(); }
uint32_t fg_next_fitting(void) { return abi_next_fitting(); }
void fg_rewind(void) { abi_rewind(); }
bool fg_fits(uint32_t candidate) { return abi_fits(candidate) != 0; }
double fg_earliest(uint32_t candidate) { return abi_earliest(candidate); }
void fg_rekey(uint32_t candidate) { abi_rekey(candidate); }
void fg_wake_at(double time) { abi_wake_at(time); }

fg_job fg_describe(uint32_t candidate) {
    fg_job job;
    abi_describe(candidate, &job);
    return job;
}

fg_refusal fg_start(uint32_t candidate) {
    uint8_t answer[2];
    abi_start(candidate, answer);
    return refusal(answer);
}

fg_refusal fg_start_placed(uint32_t candidate, uint32_t placement) {
    uint8_t answer[2];
    abi_start_placed(candidate, placement, answer);
    return refusal(answer);
}

/* A start, or why not. */
typedef struct {
    uint8_t failed;
    union {
        double start;
        uint8_t refusal;
    };
} reserved;

static fg_refusal started_at(const reserved *answer, double *start) {
    if (answer->failed) return (fg_refusal)(FG_BUSY + answer->refusal);
    *start = answer->start;
    return FG_OK;
}

fg_refusal fg_reserve(uint32_t candidate, double *start) {
    reserved answer;
    abi_reserve(candidate, &answer);
    return started_at(&answer, start);
}

/* A list as the host hands it over. */
typedef struct {
    void *at;
    size_t length;
} list;

size_t fg_next_many(uint32_t most, fg_row **rows) {
    list answer;
    abi_next_many(most, &answer);
    *rows = answer.at;
    return answer.length;
}

size_t fg_start_or_reserve(const uint32_t *candidates, size_t count, double **starts) {
    list answer;
    abi_start_or_reserve(candidates, count, &answer);
    *starts = answer.at;
    return answer.length;
}

bool fg_start_or_reserve_next(uint32_t reservations, uint32_t unknown) {
    return abi_start_or_reserve_next(reservations, unknown) != 0;
}

bool fg_backfill(uint32_t reservations, uint32_t unknown, bool holds) {
    return abi_backfill(reservations, unknown, holds) != 0;
}

bool fg_renew(uint32_t count, fg_renewed **renewed, size_t *length) {
    struct {
        uint8_t some;
        list all;
    } answer;
    abi_renew(count, &answer);
    *renewed = answer.some ? answer.all.at : NULL;
    *length = answer.some ? answer.all.length : 0;
    return answer.some;
}

size_t fg_group_heads(bool by_cores, bool fitting, uint32_t after, fg_row **rows) {
    list answer;
    bool some = after != FG_NONE;
    abi_heads(by_cores, fitting, some, some ? after : 0, &answer);
    *rows = answer.at;
    return answer.length;
}

size_t fg_changed_groups(bool by_cores, bool *all, fg_group_head **heads) {
    struct {
        uint8_t all;
        list heads;
    } answer;
    abi_changed_groups(by_cores, &answer);
    *all = answer.all;
    *heads = answer.heads.at;
    return answer.heads.length;
}

bool fg_next_in_group(uint32_t candidate, bool fitting, fg_row *row) {
    struct {
        uint8_t some;
        fg_row row;
    } answer;
    abi_next_in_group(candidate, fitting, &answer);
    if (answer.some) *row = answer.row;
    return answer.some;
}

size_t fg_flow_kinds(fg_kind **kinds) {
    list answer;
    abi_flow_kinds(&answer);
    *kinds = answer.at;
    return answer.length;
}

size_t fg_flow_asked(const uint32_t *candidates, size_t count, uint64_t **amounts) {
    list answer;
    abi_flow_asked(candidates, count, &answer);
    *amounts = answer.at;
    return answer.length;
}

size_t fg_flow_spans(uint32_t kind, fg_span **spans) {
    list answer;
    abi_flow_spans(kind, &answer);
    *spans = answer.at;
    return answer.length;
}

double fg_earliest_after(uint32_t candidate, double time) { return abi_earliest_after(candidate, time); }

fg_refusal fg_reserve_after(uint32_t candidate, double time, double *start) {
    reserved answer;
    abi_reserve_after(candidate, time, &answer);
    return started_at(&answer, start);
}

size_t fg_resource_kinds(fg_kind **kinds) {
    list answer;
    abi_resource_kinds(&answer);
    *kinds = answer.at;
    return answer.length;
}

size_t fg_resources_asked(const uint32_t *candidates, size_t count, uint64_t **amounts) {
    list answer;
    abi_resources_asked(candidates, count, &answer);
    *amounts = answer.at;
    return answer.length;
}

size_t fg_attribute_texts(fg_text name, const uint32_t *candidates, size_t count, fg_maybe_text **texts) {
    list answer;
    abi_attribute_texts(name.at, name.length, candidates, count, &answer);
    *texts = answer.at;
    return answer.length;
}

size_t fg_attribute_numbers(fg_text name, const uint32_t *candidates, size_t count, double **numbers) {
    list answer;
    abi_attribute_numbers(name.at, name.length, candidates, count, &answer);
    *numbers = answer.at;
    return answer.length;
}

void fg_free_texts(fg_maybe_text *texts, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (texts[i].known) fg_free((void *)texts[i].text.at);
    fg_free(texts);
}

void fg_free_kinds(fg_kind *kinds, size_t count) {
    for (size_t i = 0; i < count; i++) {
        fg_free((void *)kinds[i].name.at);
        fg_free((void *)kinds[i].unit.at);
    }
    fg_free(kinds);
}

bool fg_placement(fg_text name, uint32_t *placement) {
    uint32_t answer[2];
    abi_placement(name.at, name.length, answer);
    if (!(answer[0] & 0xff)) return false;
    *placement = answer[1];
    return true;
}

void fg_annotate(uint32_t candidate, fg_text key, fg_text json) {
    abi_annotate(candidate, key.at, key.length, json.at, json.length);
}

/* ---- Exports ---- */

/* The answer of the export that is being called; they do not nest. */
static struct {
    uint32_t words[8];
} answer;

/* What the answer points to, to be freed when the host has read it. */
static void *answered;

void fg_abi_done(void) {
    fg_free(answered);
    answered = NULL;
}

void *fg_abi_description(const fg_description *description) {
    const fg_text *texts[] = {&description->name, &description->version, &description->summary};
    for (int i = 0; i < 3; i++) {
        answer.words[2 * i] = (uint32_t)texts[i]->at;
        answer.words[2 * i + 1] = texts[i]->length;
    }
    answer.words[6] = (uint32_t)description->keys;
    answer.words[7] = description->key_count;
    return &answer;
}

/* A `result<_, string>`; the text is empty when all is well. */
void *fg_abi_restore(fg_text why_not) {
    answer.words[0] = why_not.length > 0;
    answer.words[1] = (uint32_t)why_not.at;
    answer.words[2] = why_not.length;
    return &answer;
}

void *fg_abi_configure(fg_text (*configure)(const fg_setting *, size_t), fg_setting *settings, size_t count) {
    fg_text why_not = configure(settings, count);
    for (size_t i = 0; i < count; i++) {
        fg_free((void *)settings[i].name.at);
        fg_free((void *)settings[i].value.at);
    }
    fg_free(settings);
    return fg_abi_restore(why_not);
}

void *fg_abi_keys(void (*keys)(double, const fg_jobs *, double *), void *arguments) {
    /* More than 16 numbers cross in memory: the time, then pointer and length of each column. */
    struct {
        double now;
        struct {
            void *at;
            size_t length;
        } columns[9];
    } *given = arguments;
    fg_jobs jobs = {
        given->columns[0].length, given->columns[0].at, given->columns[1].at, given->columns[2].at, given->columns[3].at,
        given->columns[4].at,     given->columns[5].at, given->columns[6].at, given->columns[7].at, given->columns[8].at,
    };
    double *made = fg_alloc(jobs.length * sizeof(double));
    keys(given->now, &jobs, made);
    for (int i = 0; i < 9; i++) fg_free(given->columns[i].at);
    answer.words[0] = (uint32_t)made;
    answer.words[1] = jobs.length;
    answered = made;
    fg_free(given);
    return &answer;
}

void *fg_abi_scores(void (*scores)(const fg_node *, size_t, double *), fg_node *nodes, size_t count) {
    double *made = fg_alloc(count * sizeof(double));
    scores(nodes, count, made);
    for (size_t i = 0; i < count; i++) {
        fg_free((void *)nodes[i].host.at);
        fg_free((void *)nodes[i].path.at);
        for (size_t p = 0; p < nodes[i].property_count; p++) fg_free((void *)nodes[i].properties[p].at);
        fg_free((void *)nodes[i].properties);
        for (size_t h = 0; h < nodes[i].hold_count; h++) {
            fg_free((void *)nodes[i].holds[h].kind.at);
            fg_free((void *)nodes[i].holds[h].unit.at);
        }
        fg_free((void *)nodes[i].holds);
    }
    fg_free(nodes);
    answer.words[0] = (uint32_t)made;
    answer.words[1] = count;
    answered = made;
    return &answer;
}

void *fg_abi_save(fg_state state) {
    answer.words[0] = state.version;
    answer.words[1] = (uint32_t)state.data;
    answer.words[2] = state.length;
    return &answer;
}

#endif

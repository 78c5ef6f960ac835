/* Write a Fluxgate scheduling policy in C.
 *
 * SPDX-License-Identifier: Apache-2.0
 *
 * The contract of `fluxgate:policy@0.1.0` for C without a C library. `policy.wit` beside this file says what each question
 * means; names are the same, with `fg_` before them. Times and durations are seconds, a time counts from the UNIX
 * epoch. There is no clock, no randomness and no file.
 *
 * A policy names what it has, once each, at file level:
 *
 *     FG_POLICY(description, configure)    required
 *     FG_ORDERING(keys)                    and any of these
 *     FG_SCHEDULING(run)
 *     FG_OBSERVING(observe)
 *     FG_STATE(save, restore)
 *     FG_RANKING(scores)
 *
 * Compiled for anything but WebAssembly these do nothing and the questions are plain functions, which a test defines.
 */
#ifndef FLUXGATE_H
#define FLUXGATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Records ---- */

/* Text: UTF-8, not terminated by a zero. */
typedef struct {
    const char *at;
    size_t length;
} fg_text;

/* A text of a string literal. */
#ifdef __cplusplus
#define FG_TEXT(literal) (fg_text{(literal), sizeof(literal) - 1})
#else
#define FG_TEXT(literal) ((fg_text){(literal), sizeof(literal) - 1})
#endif

/* An RFC 19 FLUID. */
typedef uint64_t fg_job_id;

/* No candidate is left. */
#define FG_NONE UINT32_MAX

typedef enum {
    FG_OK = 0,
    FG_BUSY,               /* does not fit on the free resources */
    FG_DELAYS_RESERVATION, /* would fit, but would delay a reservation */
    FG_UNSATISFIABLE,      /* no resources of this machine could ever satisfy it */
    FG_NOT_ELIGIBLE,       /* its queue is stopped, or it left the queue during this pass */
    FG_LIMIT,              /* a bound of the host is reached: end the pass */
} fg_refusal;

/* The scalars of a candidate. */
typedef struct {
    fg_job_id id;
    double t_submit, duration;
    uint32_t priority, userid, nodes, cores, gpus;
} fg_job;

/* A batch of jobs, one array for each field; row i is job i. */
typedef struct {
    size_t length;
    const fg_job_id *id;
    const double *t_submit, *duration;
    const uint32_t *priority, *userid, *queue, *nodes, *cores, *gpus;
} fg_jobs;

typedef enum { FG_PENDING, FG_STARTED, FG_ENDED, FG_REMOVED, FG_PRIORITY, FG_EXPIRATION } fg_event_kind;

typedef struct {
    uint8_t kind; /* a fg_event_kind */
    fg_job_id job;
    double time;
    double value; /* its meaning depends on the kind; see policy.wit */
} fg_event;

typedef enum { FG_BOOLEAN, FG_INTEGER, FG_FLOAT, FG_DURATION, FG_STRING } fg_config_kind;

/* One setting of the policy. */
typedef struct {
    fg_text name;
    uint8_t kind; /* a fg_config_kind */
    fg_text initial;
    fg_text help;
} fg_key;

/* A policy's description of itself. */
typedef struct {
    fg_text name, version, summary;
    const fg_key *keys;
    size_t key_count;
} fg_description;

/* A setting and its value, in the order of the described keys. */
typedef struct {
    fg_text name, value;
} fg_setting;

typedef struct {
    uint32_t nodes, cores, gpus;
    uint32_t free_nodes, free_cores, free_gpus;
    uint32_t running, pending;
} fg_totals;

/* A candidate with what it asks for. */
typedef struct {
    uint32_t candidate;
    fg_job job;
} fg_row;

/* A kind of flow, or of resources beside nodes, cores and gpus. */
typedef struct {
    fg_text name, unit;
    uint64_t total, free;
} fg_kind;

/* A text, if it is known. */
typedef struct {
    bool known;
    fg_text text;
} fg_maybe_text;

/* An amount of flow over a time. */
typedef struct {
    double start, end;
    uint64_t amount;
} fg_span;

/* So much of one kind of resource in a node. */
typedef struct {
    fg_text kind;
    uint64_t amount;
    fg_text unit;
} fg_quantity;

/* A node, whoever holds something of it. */
typedef struct {
    uint32_t rank;
    fg_text host, path;
    const fg_text *properties;
    size_t property_count;
    const fg_quantity *holds;
    size_t hold_count;
} fg_node;

typedef enum { FG_ERROR, FG_WARN, FG_INFO, FG_DEBUG } fg_level;

/* ---- Questions; the pass ones only inside `run` ---- */

void fg_log(fg_level level, fg_text message);

fg_totals fg_machine_totals(void);
uint32_t fg_queue_count(void);
/* Free the text with `fg_free((void *)text.at)`. */
fg_text fg_queue_name(uint32_t index);

double fg_now(void);
uint32_t fg_queue(void);
uint32_t fg_next(void);
uint32_t fg_next_fitting(void);
void fg_rewind(void);
fg_job fg_describe(uint32_t candidate);
bool fg_fits(uint32_t candidate);
double fg_earliest(uint32_t candidate);
fg_refusal fg_start(uint32_t candidate);
fg_refusal fg_start_placed(uint32_t candidate, uint32_t placement);
/* `*start` is the reserved start when the answer is FG_OK. */
fg_refusal fg_reserve(uint32_t candidate, double *start);
/* False when this host does not support the placement. */
bool fg_placement(fg_text name, uint32_t *placement);
void fg_annotate(uint32_t candidate, fg_text key, fg_text json);
void fg_rekey(uint32_t candidate);
void fg_wake_at(double time);

/* ---- Questions that were added after the release of 0.1.0. A policy that asks none of them runs on hosts without them.
 * Answers are lists that are yours: free them with fg_free, kinds with fg_free_kinds. ---- */

/* many.wit: the next candidates, each as fg_next and fg_describe give it; returns how many there are. */
size_t fg_next_many(uint32_t most, fg_row **rows);
/* many.wit: each in turn started, or else reserved: negative infinity, the reserved start, or not a number. Returns how
 * many have an answer: it ends before the first that is refused with FG_LIMIT. */
size_t fg_start_or_reserve(const uint32_t *candidates, size_t count, double **starts);
/* many.wit: fg_start_or_reserve of what fg_next gives, until `reservations` of them have been given a reservation, or for `unknown` of
 * them no start is known; with no reservations, until the first that has to wait. False if the pass is over: no candidate is
 * left, a bound of the host is reached, or one has to wait where none gets a reservation. */
bool fg_start_or_reserve_next(uint32_t reservations, uint32_t unknown);
/* many.wit: a whole pass in the order of the queue: fg_start_or_reserve_next, and if it is true fg_start of what fg_next_fitting gives.
 * False, with reservations, if a bound of the host is reached or no candidate is left for one. With `holds`, this policy
 * asks nothing but the same in each later pass of this queue, whatever has happened: the host may ask it in place of a call, and leaves
 * out a pass that only submissions require, if all decisions are the same without it. */
bool fg_backfill(uint32_t reservations, uint32_t unknown, bool holds);
/* many.wit: what has become of a reservation of the last pass; the start is as in an answer of fg_start_or_reserve. */
typedef struct {
    uint64_t id;
    double start;
} fg_renewed;
/* many.wit: makes the reservations of the last pass of this queue anew: fg_start_or_reserve of each, in the order of their starts,
 * and of equal starts in the order of the queue. Has those that have another start than before. False, and nothing is done, if
 * this policy did not make them in that pass, if there are not `count` of them any more, after a question of this pass that
 * depends on reservations, and wherever the host cannot tell. */
bool fg_renew(uint32_t count, fg_renewed **renewed, size_t *length);

/* groups.wit: the first candidate of each group after that of `after`, or FG_NONE for the first groups. */
size_t fg_group_heads(bool by_cores, bool fitting, uint32_t after, fg_row **rows);
/* groups.wit: the first candidate of a group, if it has one. */
typedef struct {
    uint32_t group;
    struct {
        bool some;
        fg_row row;
    } first;
} fg_group_head;
/* groups.wit: the groups whose first candidate is not that of the last answer, at most 4096; `all` if earlier answers do not hold any
 * more. Returns how many there are. To be called before the first start or reservation of a pass. */
size_t fg_changed_groups(bool by_cores, bool *all, fg_group_head **heads);
/* groups.wit: false when no further candidate is in the group. */
bool fg_next_in_group(uint32_t candidate, bool fitting, fg_row *row);

/* flow.wit */
size_t fg_flow_kinds(fg_kind **kinds);
/* An amount of each kind for the first candidate, then for the second, and so on. */
size_t fg_flow_asked(const uint32_t *candidates, size_t count, uint64_t **amounts);
size_t fg_flow_spans(uint32_t kind, fg_span **spans);
double fg_earliest_after(uint32_t candidate, double time);
fg_refusal fg_reserve_after(uint32_t candidate, double time, double *start);

/* resources.wit */
size_t fg_resource_kinds(fg_kind **kinds);
size_t fg_resources_asked(const uint32_t *candidates, size_t count, uint64_t **amounts);

void fg_free_kinds(fg_kind *kinds, size_t count);

/* attributes.wit: `memory`, `group`, `application` or `name` of each of these candidates; returns how many answers there are.
 * Free texts with fg_free_texts. */
size_t fg_attribute_texts(fg_text name, const uint32_t *candidates, size_t count, fg_maybe_text **texts);
/* The same as numbers; not a number where it is unknown. */
size_t fg_attribute_numbers(fg_text name, const uint32_t *candidates, size_t count, double **numbers);

void fg_free_texts(fg_maybe_text *texts, size_t count);

/* ---- Helpers ---- */

/* Memory; zero-length is NULL. Running out of it ends the call, which the host survives. */
void *fg_alloc(size_t bytes);
void fg_free(void *memory);
/* Numbers in the host's form. False when the text is no number. */
bool fg_integer(fg_text text, int64_t *value);
bool fg_float(fg_text text, double *value);

/* ---- Exports ---- */

/* The answer of `configure` and `restore`: FG_ACCEPT, or the sentence that says why not. */
#ifdef __cplusplus
#define FG_ACCEPT (fg_text{nullptr, 0})
#else
#define FG_ACCEPT ((fg_text){NULL, 0})
#endif

typedef struct {
    uint32_t version;
    const void *data;
    size_t length;
} fg_state;

#ifdef __wasm__

/* As the canonical ABI lays it out; see fluxgate.c. */
void *fg_abi_description(const fg_description *description);
void *fg_abi_configure(fg_text (*configure)(const fg_setting *, size_t), fg_setting *settings, size_t count);
void *fg_abi_keys(void (*keys)(double, const fg_jobs *, double *), void *arguments);
void *fg_abi_save(fg_state state);
void *fg_abi_scores(void (*scores)(const fg_node *, size_t, double *), fg_node *nodes, size_t count);
void *fg_abi_restore(fg_text why_not);
void fg_abi_done(void);

#define FG_EXPORT(name) __attribute__((export_name("fluxgate:policy/" name)))
#define FG_DONE(function, name)                                                                                        \
    __attribute__((export_name("cabi_post_fluxgate:policy/" name))) void fg_done_##function(void *answer) {            \
        (void)answer;                                                                                                  \
        fg_abi_done();                                                                                                 \
    }

/* const fg_description description;  fg_text configure(const fg_setting *settings, size_t count); */
#define FG_POLICY(description, configure)                                                                              \
    FG_EXPORT("policy@0.1.0#describe") void *fg_export_describe(void) { return fg_abi_description(&(description)); }   \
    FG_EXPORT("policy@0.1.0#configure") void *fg_export_configure(fg_setting *settings, size_t count) {                \
        return fg_abi_configure(configure, settings, count);                                                           \
    }                                                                                                                  \
    FG_DONE(describe, "policy@0.1.0#describe")                                                                         \
    FG_DONE(configure, "policy@0.1.0#configure")

/* void keys(double now, const fg_jobs *jobs, double *keys); as many keys as jobs, smaller comes first */
#define FG_ORDERING(keys)                                                                                              \
    FG_EXPORT("ordering@0.1.0#keys") void *fg_export_keys(void *arguments) { return fg_abi_keys(keys, arguments); }    \
    FG_DONE(keys, "ordering@0.1.0#keys")

/* void run(void); one pass */
#define FG_SCHEDULING(run)                                                                                             \
    FG_EXPORT("scheduling@0.1.0#run") void fg_export_run(void) { run(); }

/* void observe(double now, const fg_event *events, size_t count); */
#define FG_OBSERVING(observe)                                                                                          \
    FG_EXPORT("observing@0.1.0#observe") void fg_export_observe(double now, fg_event *events, size_t count) {          \
        observe(now, events, count);                                                                                   \
        fg_free(events);                                                                                               \
    }

/* fg_state save(void); the bytes stay yours.
 * fg_text restore(fg_text from, uint32_t version, const uint8_t *data, size_t length); */
#define FG_STATE(save, restore)                                                                                        \
    FG_EXPORT("state@0.1.0#save") void *fg_export_save(void) { return fg_abi_save(save()); }                           \
    FG_EXPORT("state@0.1.0#restore")                                                                                   \
    void *fg_export_restore(char *from, size_t from_length, uint32_t version, uint8_t *data, size_t length) {          \
        fg_text name = {from, from_length};                                                                            \
        fg_text why_not = restore(name, version, data, length);                                                        \
        fg_free(from);                                                                                                 \
        fg_free(data);                                                                                                 \
        return fg_abi_restore(why_not);                                                                                \
    }                                                                                                                  \
    FG_DONE(restore, "state@0.1.0#restore")

/* void scores(const fg_node *nodes, size_t count, double *scores); as many scores as nodes, smaller ones are taken first */
#define FG_RANKING(scores)                                                                                             \
    FG_EXPORT("ranking@0.1.0#scores") void *fg_export_scores(fg_node *nodes, size_t count) {                           \
        return fg_abi_scores(scores, nodes, count);                                                                    \
    }                                                                                                                  \
    FG_DONE(scores, "ranking@0.1.0#scores")

#else

#define FG_POLICY(description, configure)
#define FG_ORDERING(keys)
#define FG_SCHEDULING(run)
#define FG_OBSERVING(observe)
#define FG_STATE(save, restore)
#define FG_RANKING(scores)

#endif

#ifdef __cplusplus
}
#endif
#endif

/* The policy `abilities` in C; the rules are in ../README.md. */
#include "fluxgate.h"

/* Candidates of one question. */
enum { MOST = 256 };

static const fg_key keys[] = {
    {FG_TEXT("use"), FG_STRING, FG_TEXT("many"), FG_TEXT("many, backfill, groups, changed, flow, resources or attributes")},
};
static const fg_description description = {
    FG_TEXT("abilities-c"), FG_TEXT("0.1.0"), FG_TEXT("what the contract gained after its first release, in C"), keys, 1,
};

static bool equal(fg_text text, fg_text other) {
    if (text.length != other.length) return false;
    for (size_t i = 0; i < text.length; i++)
        if (text.at[i] != other.at[i]) return false;
    return true;
}

static void many(void) {
    for (;;) {
        fg_row *rows;
        size_t count = fg_next_many(MOST, &rows);
        uint32_t *candidates = fg_alloc(count * sizeof(uint32_t));
        for (size_t i = 0; i < count; i++) candidates[i] = rows[i].candidate;
        double *starts;
        size_t answers = fg_start_or_reserve(candidates, count, &starts);
        fg_free(rows);
        fg_free(candidates);
        fg_free(starts);
        if (answers < count || count < MOST) return;
    }
}

static void backfill(void) { fg_backfill(1, 64, true); }

static void groups(void) {
    fg_row *rows;
    uint32_t after = FG_NONE;
    size_t count;
    do {
        count = fg_group_heads(false, true, after, &rows);
        for (size_t i = 0; i < count; i++) {
            fg_row row = rows[i];
            after = row.candidate;
            do {
                if (fg_start(row.candidate) == FG_LIMIT) {
                    fg_free(rows);
                    return;
                }
            } while (fg_next_in_group(row.candidate, true, &row));
        }
        fg_free(rows);
    } while (count == 4096);
}

/* The first candidates of the groups of the only queue, by number, and how many places there are. */
typedef struct {
    bool some;
    fg_row row;
} first;
static first *kept;
static size_t places;

static void changed(void) {
    fg_group_head *heads;
    size_t count;
    do {
        bool all;
        count = fg_changed_groups(false, &all, &heads);
        for (size_t i = 0; all && i < places; i++) kept[i].some = false;
        for (size_t i = 0; i < count; i++) {
            size_t group = heads[i].group;
            if (group >= places) {
                size_t more = 2 * group + 16;
                first *moved = fg_alloc(more * sizeof(first));
                for (size_t j = 0; j < more; j++) moved[j] = j < places ? kept[j] : (first){0};
                fg_free(kept);
                kept = moved;
                places = more;
            }
            kept[group] = (first){heads[i].first.some, heads[i].first.row};
        }
        fg_free(heads);
    } while (count == 4096);
    for (size_t i = 0; i < places; i++) {
        fg_row row = kept[i].row;
        for (bool more = kept[i].some; more; more = fg_next_in_group(row.candidate, true, &row))
            if (fg_start(row.candidate) == FG_LIMIT) return;
    }
}

/* True if this start leaves half of each kind free. */
static bool leaves_half(uint32_t candidate) {
    fg_kind *kinds;
    uint64_t *asked;
    size_t count = fg_flow_kinds(&kinds), amounts = fg_flow_asked(&candidate, 1, &asked);
    bool leaves = amounts == count;
    for (size_t i = 0; leaves && i < count; i++)
        leaves = kinds[i].free >= asked[i] && kinds[i].free - asked[i] >= kinds[i].total / 2;
    fg_free_kinds(kinds, count);
    fg_free(asked);
    return leaves;
}

/* The last end of what is held of any kind. */
static double last_end(void) {
    fg_kind *kinds;
    size_t count = fg_flow_kinds(&kinds);
    fg_free_kinds(kinds, count);
    double last = fg_now();
    for (uint32_t kind = 0; kind < count; kind++) {
        fg_span *spans;
        size_t length = fg_flow_spans(kind, &spans);
        for (size_t i = 0; i < length; i++)
            if (__builtin_isinf(spans[i].start) && __builtin_isfinite(spans[i].end) && spans[i].end > last)
                last = spans[i].end;
        fg_free(spans);
    }
    return last;
}

static void flow(void) {
    for (uint32_t job = fg_next(); job != FG_NONE; job = fg_next()) {
        if (leaves_half(job) && fg_start(job) == FG_OK) continue;
        double start, after = last_end();
        /* The host reserves what it said would be the earliest start. */
        double earliest = fg_earliest_after(job, after);
        if (fg_reserve_after(job, after, &start) == FG_OK && start != earliest) __builtin_trap();
        return;
    }
}

/* Starts what fits, of the jobs that ask for something beside nodes, cores and gpus, or of the others. */
static void those(bool asking) {
    fg_row *rows;
    size_t count;
    fg_rewind();
    do {
        count = fg_next_many(MOST, &rows);
        for (size_t i = 0; i < count; i++) {
            uint64_t *asked, sum = 0;
            size_t kinds = fg_resources_asked(&rows[i].candidate, 1, &asked);
            for (size_t kind = 0; kind < kinds; kind++) sum += asked[kind];
            fg_free(asked);
            if ((sum > 0) == asking) fg_start(rows[i].candidate);
        }
        fg_free(rows);
    } while (count == MOST);
}

static void resources(void) {
    fg_kind *kinds;
    size_t count = fg_resource_kinds(&kinds);
    fg_free_kinds(kinds, count);
    if (count > 0) those(true);
    those(false);
}

/* Starts what fits of the jobs of group 7, then of those whose memory is known, then of the others. */
static void attributes(void) {
    for (int turn = 0; turn < 3; turn++) {
        fg_row *rows;
        size_t count;
        fg_rewind();
        do {
            count = fg_next_many(MOST, &rows);
            uint32_t *candidates = fg_alloc(count * sizeof(uint32_t));
            for (size_t i = 0; i < count; i++) candidates[i] = rows[i].candidate;
            fg_maybe_text *groups;
            double *memory;
            size_t texts = fg_attribute_texts(FG_TEXT("group"), candidates, count, &groups);
            size_t numbers = fg_attribute_numbers(FG_TEXT("memory"), candidates, count, &memory);
            if (texts != count || numbers != count) __builtin_trap();
            for (size_t i = 0; i < count; i++) {
                bool first = groups[i].known && equal(groups[i].text, FG_TEXT("7"));
                bool known = !__builtin_isnan(memory[i]);
                if (turn == (first ? 0 : known ? 1 : 2)) fg_start(candidates[i]);
            }
            fg_free_texts(groups, texts);
            fg_free(memory);
            fg_free(candidates);
            fg_free(rows);
        } while (count == MOST);
    }
}

static void (*chosen)(void);

static fg_text configure(const fg_setting *settings, size_t count) {
    static const struct {
        fg_text name;
        void (*rule)(void);
    } rules[] = {
        {FG_TEXT("many"), many},
        {FG_TEXT("backfill"), backfill},
        {FG_TEXT("groups"), groups},
        {FG_TEXT("changed"), changed},
        {FG_TEXT("flow"), flow},
        {FG_TEXT("resources"), resources},
        {FG_TEXT("attributes"), attributes},
    };
    for (size_t i = 0; count == 1 && i < sizeof(rules) / sizeof(rules[0]); i++)
        if (equal(settings[0].value, rules[i].name)) chosen = rules[i].rule;
    return chosen ? FG_ACCEPT : FG_TEXT("`use` must be many, backfill, groups, changed, flow, resources or attributes");
}

static void run(void) { chosen(); }

static void scores(const fg_node *nodes, size_t count, double *scores) {
    for (size_t i = 0; i < count; i++) {
        scores[i] = 0.0;
        for (size_t h = 0; h < nodes[i].hold_count; h++)
            if (equal(nodes[i].holds[h].kind, FG_TEXT("core"))) scores[i] -= (double)nodes[i].holds[h].amount;
        for (size_t p = 0; p < nodes[i].property_count; p++)
            if (equal(nodes[i].properties[p], FG_TEXT("last"))) scores[i] += 1e9;
    }
}

FG_POLICY(description, configure)
FG_SCHEDULING(run)
FG_RANKING(scores)

// The policy `abilities` in C++; the rules are in ../README.md.
#include "fluxgate.hpp"

using fluxgate::List;
using fluxgate::Text;

namespace {

// Candidates of one question.
constexpr uint32_t most = 256;

constexpr fg_key keys[] = {
    {FG_TEXT("use"), FG_STRING, FG_TEXT("many"), FG_TEXT("many, backfill, groups, changed, flow, resources or attributes")},
};
constexpr fg_description description = {
    FG_TEXT("abilities-cpp"), FG_TEXT("0.1.0"), FG_TEXT("what the contract gained after its first release, in C++"), keys, 1,
};

List<uint32_t> candidates(const List<fg_row> &rows) {
    List<uint32_t> candidates(rows.size());
    for (size_t i = 0; i < rows.size(); i++) candidates[i] = rows[i].candidate;
    return candidates;
}

void many() {
    for (;;) {
        List<fg_row> rows = fluxgate::next_many(most);
        List<double> answers = fluxgate::start_or_reserve(candidates(rows));
        if (answers.size() < rows.size() || rows.size() < most) return;
    }
}

void backfill() { fluxgate::backfill(1, 64, true); }

void groups() {
    uint32_t after = FG_NONE;
    size_t count;
    do {
        List<fg_row> heads = fluxgate::group_heads(false, true, after);
        count = heads.size();
        for (fg_row row : heads) {
            after = row.candidate;
            do {
                if (fluxgate::start(row.candidate) == FG_LIMIT) return;
            } while (fluxgate::next_in_group(row.candidate, true, row));
        }
    } while (count == 4096);
}

// The first candidates of the groups of the only queue, by number.
struct Kept {
    bool some;
    fg_row row;
};
Kept *kept = nullptr;
size_t places = 0;

void keep(const fg_group_head &head) {
    if (head.group >= places) {
        size_t more = 2 * size_t(head.group) + 16;
        auto *moved = static_cast<Kept *>(fg_alloc(more * sizeof(Kept)));
        for (size_t i = 0; i < more; i++) moved[i] = i < places ? kept[i] : Kept{};
        fg_free(kept);
        kept = moved;
        places = more;
    }
    kept[head.group] = {head.first.some, head.first.row};
}

void changed() {
    size_t count;
    do {
        fluxgate::GroupChanges changes = fluxgate::changed_groups(false);
        count = changes.heads.size();
        for (size_t i = 0; changes.all && i < places; i++) kept[i].some = false;
        for (const fg_group_head &head : changes.heads) keep(head);
    } while (count == 4096);
    for (size_t i = 0; i < places; i++) {
        fg_row row = kept[i].row;
        for (bool more = kept[i].some; more; more = fluxgate::next_in_group(row.candidate, true, row))
            if (fluxgate::start(row.candidate) == FG_LIMIT) return;
    }
}

// True if this start leaves half of each kind free.
bool leaves_half(uint32_t job) {
    List<fg_kind> kinds = fluxgate::flow_kinds();
    List<uint64_t> asked = fluxgate::flow_asked(job);
    for (size_t i = 0; i < kinds.size(); i++)
        if (kinds[i].free < asked[i] || kinds[i].free - asked[i] < kinds[i].total / 2) return false;
    return true;
}

// The last end of what is held of any kind.
double last_end() {
    double last = fluxgate::now();
    uint32_t kinds = fluxgate::flow_kinds().size();
    for (uint32_t kind = 0; kind < kinds; kind++)
        for (const fg_span &span : fluxgate::flow_spans(kind))
            if (__builtin_isinf(span.start) && __builtin_isfinite(span.end) && span.end > last) last = span.end;
    return last;
}

void flow() {
    for (uint32_t job : fluxgate::candidates()) {
        if (leaves_half(job) && fluxgate::start(job) == FG_OK) continue;
        double after = last_end(), earliest = fluxgate::earliest_after(job, after);
        fluxgate::Reserved reserved = fluxgate::reserve_after(job, after);
        // The host reserves what it said would be the earliest start.
        if (reserved.refusal == FG_OK && reserved.start != earliest) __builtin_trap();
        return;
    }
}

// Starts what fits of the jobs in each turn; `of` writes the turn of each.
template <class Of>
void in_turns(int turns, Of of) {
    for (int turn = 0; turn < turns; turn++) {
        fluxgate::rewind();
        size_t count;
        do {
            List<fg_row> rows = fluxgate::next_many(most);
            List<uint32_t> jobs = candidates(rows);
            List<int> its_turns(jobs.size());
            of(jobs, its_turns);
            for (size_t i = 0; i < jobs.size(); i++)
                if (its_turns[i] == turn) fluxgate::start(jobs[i]);
            count = rows.size();
        } while (count == most);
    }
}

// The jobs that ask for something beside nodes, cores and gpus, then the others.
void resources() {
    size_t kinds = fluxgate::resource_kinds().size();
    in_turns(2, [=](const List<uint32_t> &jobs, List<int> &turns) {
        List<uint64_t> asked = fluxgate::resources_asked(jobs);
        for (size_t i = 0; i < jobs.size(); i++) {
            turns[i] = 1;
            for (size_t kind = 0; kind < kinds; kind++)
                if (asked[i * kinds + kind] > 0) turns[i] = 0;
        }
    });
}

// The jobs of group 7, then those whose memory is known, then the others.
void attributes() {
    in_turns(3, [](const List<uint32_t> &jobs, List<int> &turns) {
        List<fg_maybe_text> groups = fluxgate::attribute_texts("group", jobs);
        List<double> memory = fluxgate::attribute_numbers("memory", jobs);
        for (size_t i = 0; i < jobs.size(); i++) {
            bool first = groups[i].known && groups[i].text == Text("7");
            turns[i] = first ? 0 : !__builtin_isnan(memory[i]) ? 1 : 2;
        }
    });
}

void (*chosen)();

fg_text configure(const fg_setting *settings, size_t count) {
    constexpr struct {
        Text name;
        void (*rule)();
    } rules[] = {
        {"many", many}, {"backfill", backfill},   {"groups", groups},       {"changed", changed},
        {"flow", flow}, {"resources", resources}, {"attributes", attributes},
    };
    Text use = fluxgate::Settings(settings, count).text("use");
    for (const auto &each : rules)
        if (each.name == use) chosen = each.rule;
    return chosen ? FG_ACCEPT : FG_TEXT("`use` must be many, backfill, groups, changed, flow, resources or attributes");
}

void run() { chosen(); }

void scores(const fg_node *nodes, size_t count, double *scores) {
    for (size_t i = 0; i < count; i++) {
        scores[i] = 0.0;
        for (const fg_quantity &hold : fluxgate::Span(nodes[i].holds, nodes[i].hold_count))
            if (hold.kind == Text("core")) scores[i] -= static_cast<double>(hold.amount);
        for (Text property : fluxgate::Span(nodes[i].properties, nodes[i].property_count))
            if (property == "last") scores[i] += 1e9;
    }
}

}  // namespace

FG_POLICY(description, configure)
FG_SCHEDULING(run)
FG_RANKING(scores)

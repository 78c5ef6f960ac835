// Write a Fluxgate scheduling policy in C++.
//
// SPDX-License-Identifier: Apache-2.0
//
// fluxgate.h for C++17 without a standard library, exceptions or type information: answers own their memory, and candidates
// are ranges. Names are those of fluxgate.h without `fg_`; records are those of fluxgate.h, and so are the exports (FG_POLICY and
// the others, at file level). The `.wit` files beside this one say what each question means.
//
// Globals must be constants or have constant values at the start: nothing runs constructors. There is no `new`; memory comes
// from `fg_alloc`.
#ifndef FLUXGATE_HPP
#define FLUXGATE_HPP

#include "fluxgate.h"

namespace fluxgate {

// ---- Text ----

/// UTF-8, not terminated by a zero; refers to bytes and does not own them.
struct Text : fg_text {
    constexpr Text(fg_text text) : fg_text(text) {}
    template <size_t N>
    constexpr Text(const char (&literal)[N]) : fg_text{literal, N - 1} {}

    friend constexpr bool operator==(Text one, Text other) {
        if (one.length != other.length) return false;
        for (size_t i = 0; i < one.length; i++)
            if (one.at[i] != other.at[i]) return false;
        return true;
    }
    friend constexpr bool operator!=(Text one, Text other) { return !(one == other); }
};

// ---- Lists ----

/// Some values that somebody else owns.
template <class T>
struct Span {
    const T *at;
    size_t length;

    constexpr Span(const T *at, size_t length) : at(at), length(length) {}
    constexpr Span(const T &one) : at(&one), length(1) {}

    constexpr const T *begin() const { return at; }
    constexpr const T *end() const { return at + length; }
    constexpr size_t size() const { return length; }
    constexpr const T &operator[](size_t i) const { return at[i]; }
};

namespace detail {
template <class T>
void release(T *values, size_t) {
    fg_free(values);
}
inline void release(fg_kind *kinds, size_t count) { fg_free_kinds(kinds, count); }
inline void release(fg_maybe_text *texts, size_t count) { fg_free_texts(texts, count); }
}  // namespace detail

/// Values that it owns: an answer of the host, or room for so many of your own.
template <class T>
class List {
  public:
    explicit List(size_t length) : at(static_cast<T *>(fg_alloc(length * sizeof(T)))), length(length) {}
    List(T *at, size_t length) : at(at), length(length) {}
    List(List &&other) : at(other.at), length(other.length) { other.at = nullptr, other.length = 0; }
    List(const List &) = delete;
    List &operator=(const List &) = delete;
    ~List() { detail::release(at, length); }

    T *begin() { return at; }
    T *end() { return at + length; }
    const T *begin() const { return at; }
    const T *end() const { return at + length; }
    size_t size() const { return length; }
    T &operator[](size_t i) { return at[i]; }
    const T &operator[](size_t i) const { return at[i]; }
    operator Span<T>() const { return {at, length}; }

  private:
    T *at;
    size_t length;
};

// ---- Settings ----

/// What `configure` gets.
class Settings {
  public:
    Settings(const fg_setting *given, size_t count) : given(given), count(count) {}

    /// The value of a key; empty for a key that the policy did not describe.
    Text text(Text name) const {
        for (size_t i = 0; i < count; i++)
            if (name == given[i].name) return given[i].value;
        return "";
    }
    /// False when it is not between these two.
    bool integer(Text name, int64_t least, int64_t most, int64_t &value) const {
        return fg_integer(text(name), &value) && value >= least && value <= most;
    }
    bool number(Text name, double least, double most, double &value) const {
        return fg_float(text(name), &value) && value >= least && value <= most;
    }
    bool boolean(Text name) const { return text(name) == "true"; }

  private:
    const fg_setting *given;
    size_t count;
};

// ---- A pass ----

/// A start that is reserved, if `refusal` is FG_OK.
struct Reserved {
    fg_refusal refusal;
    double start;
};

namespace detail {
/// The candidates that a question gives one after another.
template <uint32_t (*Question)()>
struct Candidates {
    struct Iterator {
        uint32_t job;
        uint32_t operator*() const { return job; }
        Iterator &operator++() {
            job = Question();
            return *this;
        }
        bool operator!=(Iterator other) const { return job != other.job; }
    };
    Iterator begin() const { return {Question()}; }
    Iterator end() const { return {FG_NONE}; }
};
}  // namespace detail

/// `for (uint32_t job : candidates())`: those after the cursor, in order.
inline detail::Candidates<fg_next> candidates() { return {}; }
/// The same without candidates that cannot start now, as far as the host knows.
inline detail::Candidates<fg_next_fitting> fitting() { return {}; }

inline double now() { return fg_now(); }
inline void rewind() { fg_rewind(); }
inline fg_job describe(uint32_t job) { return fg_describe(job); }
inline bool fits(uint32_t job) { return fg_fits(job); }
inline double earliest(uint32_t job) { return fg_earliest(job); }
inline fg_refusal start(uint32_t job) { return fg_start(job); }
inline fg_refusal start_placed(uint32_t job, uint32_t placement) { return fg_start_placed(job, placement); }
inline Reserved reserve(uint32_t job) {
    Reserved answer{};
    answer.refusal = fg_reserve(job, &answer.start);
    return answer;
}
inline void annotate(uint32_t job, Text key, Text json) { fg_annotate(job, key, json); }
inline void rekey(uint32_t job) { fg_rekey(job); }
inline void wake_at(double time) { fg_wake_at(time); }
inline void log(fg_level level, Text message) { fg_log(level, message); }

// ---- Questions that were added after the release of 0.1.0. A policy that asks none of them runs on hosts without them. ----

namespace detail {
/// The list that a question of fluxgate.h gives through its last argument.
template <class T, class... Given, class... Asked>
List<T> list(size_t (*question)(Given...), Asked... asked) {
    T *at;
    size_t length = question(asked..., &at);
    return {at, length};
}
}  // namespace detail

/// many.wit: the next candidates with what they ask for, at most 4096.
inline List<fg_row> next_many(uint32_t most) { return detail::list<fg_row>(fg_next_many, most); }
/// many.wit: each in turn started, or else reserved: negative infinity, the reserved start, or not a number.
inline List<double> start_or_reserve(Span<uint32_t> jobs) {
    return detail::list<double>(fg_start_or_reserve, jobs.at, jobs.length);
}
/// many.wit: the next candidates started, or else reserved, until so many are reserved; see fg_start_or_reserve_next.
inline bool start_or_reserve_next(uint32_t reservations, uint32_t unknown) {
    return fg_start_or_reserve_next(reservations, unknown);
}
/// many.wit: a whole pass in the order of the queue; see fg_backfill.
inline bool backfill(uint32_t reservations, uint32_t unknown, bool holds) {
    return fg_backfill(reservations, unknown, holds);
}
/// What `renew` did.
struct Renewal {
    /// False: nothing was done.
    bool made;
    /// The reservations that have another start than before.
    List<fg_renewed> changed;
};
/// many.wit: the reservations of the last pass anew; see fg_renew.
inline Renewal renew(uint32_t count) {
    fg_renewed *at;
    size_t length;
    const bool made = fg_renew(count, &at, &length);
    return {made, List<fg_renewed>(at, length)};
}

/// groups.wit: the first candidate of each group after that of `after`; at most 4096.
inline List<fg_row> group_heads(bool by_cores, bool fitting, uint32_t after = FG_NONE) {
    return detail::list<fg_row>(fg_group_heads, by_cores, fitting, after);
}
/// Groups whose first candidate is not that of the last answer.
struct GroupChanges {
    /// Earlier answers do not hold any more.
    bool all;
    List<fg_group_head> heads;
};
/// groups.wit: the changes since the last answer, at most 4096; see fg_changed_groups.
inline GroupChanges changed_groups(bool by_cores) {
    bool all;
    fg_group_head *at;
    size_t length = fg_changed_groups(by_cores, &all, &at);
    return {all, List<fg_group_head>(at, length)};
}
/// groups.wit: false when no further candidate is in the group.
inline bool next_in_group(uint32_t job, bool fitting, fg_row &row) { return fg_next_in_group(job, fitting, &row); }

/// flow.wit
inline List<fg_kind> flow_kinds() { return detail::list<fg_kind>(fg_flow_kinds); }
/// An amount of each kind for the first candidate, then for the second, and so on.
inline List<uint64_t> flow_asked(Span<uint32_t> jobs) {
    return detail::list<uint64_t>(fg_flow_asked, jobs.at, jobs.length);
}
inline List<fg_span> flow_spans(uint32_t kind) { return detail::list<fg_span>(fg_flow_spans, kind); }
inline double earliest_after(uint32_t job, double time) { return fg_earliest_after(job, time); }
inline Reserved reserve_after(uint32_t job, double time) {
    Reserved answer{};
    answer.refusal = fg_reserve_after(job, time, &answer.start);
    return answer;
}

/// resources.wit
inline List<fg_kind> resource_kinds() { return detail::list<fg_kind>(fg_resource_kinds); }
inline List<uint64_t> resources_asked(Span<uint32_t> jobs) {
    return detail::list<uint64_t>(fg_resources_asked, jobs.at, jobs.length);
}

/// attributes.wit: `memory`, `group`, `application` or `name`, as text and as number.
inline List<fg_maybe_text> attribute_texts(Text name, Span<uint32_t> jobs) {
    return detail::list<fg_maybe_text>(fg_attribute_texts, fg_text(name), jobs.at, jobs.length);
}
inline List<double> attribute_numbers(Text name, Span<uint32_t> jobs) {
    return detail::list<double>(fg_attribute_numbers, fg_text(name), jobs.at, jobs.length);
}

}  // namespace fluxgate

#endif

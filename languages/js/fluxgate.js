// Write a Fluxgate scheduling policy in JavaScript.
//
// SPDX-License-Identifier: Apache-2.0
//
// The imports of `fluxgate:policy@0.1.0` in convenient form: a refusal is a value and not an error thrown, no
// candidate is null, and numbers are never negative (the engine hands over a u32 as an i32). `policy.wit` documents
// each question. Times and durations are seconds. A job id is a number, exact up to 2^53 only: use it to identify
// a job, with its time of submission where ids may be equal. `Date.now()` is a trap: time is an argument.
//
// What the contract gained after the release of 0.1.0 is in modules beside this one: `many.js`, `groups.js`, `flow.js`,
// `resources.js` and `attributes.js`. Each needs its line in the policy's world, such as
// `include fluxgate:policy/with-flow@0.1.0;`. A policy without that line runs on hosts that lack it.
import rawLog from "fluxgate:policy/log@0.1.0";
import rawMachine from "fluxgate:policy/machine@0.1.0";
import raw from "fluxgate:policy/pass@0.1.0";

const NONE = 0xffffffff;

/** Candidates of one question, at most. */
export const JOBS_MAX = 4096;

/** A u32 from the host, whatever its sign. */
export const u32 = (value) => value >>> 0;

const candidate = (value) => (u32(value) === NONE ? null : u32(value));

/** Write to the host's log: `error`, `warn`, `info` or `debug`. */
export const log = (level, message) => rawLog.write(level, message);

export const machine = {
    /** nodes, cores, gpus, freeNodes, freeCores, freeGpus, running, pending. */
    totals: () => rawMachine.totals(),
    queueCount: () => u32(rawMachine.queueCount()),
    queueName: (index) => rawMachine.queueName(index),
};

/** One pass over a queue; only inside `scheduling.run`. */
export const pass = {
    now: () => raw.now(),
    queue: () => u32(raw.queue()),
    /** The next candidate in order, or null when none is left. */
    next: () => candidate(raw.next()),
    /** Like `next`, without candidates that cannot start now, as far as the host knows. */
    nextFitting: () => candidate(raw.nextFitting()),
    rewind: () => raw.rewind(),
    /** id, tSubmit, duration, priority, userid, nodes, cores, gpus. */
    describe: (job) => unsigned(raw.describe(job)),
    fits: (job) => raw.fits(job),
    earliest: (job) => raw.earliest(job),
    /** Start it. Null after a start, else the refusal: `busy`, `delays-reservation`, `limit`, ... */
    start: (job) => refusal(() => raw.start(job)),
    startPlaced: (job, placement) => refusal(() => raw.startPlaced(job, placement)),
    /** Reserve its earliest start: `{ start, refusal }`, of which one is null. */
    reserve(job) {
        let start = null;
        const why = refusal(() => {
            start = raw.reserve(job);
        });
        return { start, refusal: why };
    },
    /** The number of a placement preference, or null when this host does not support it. */
    placement: (name) => raw.placement(name),
    /** `value` is any JSON value; null removes the annotation. */
    annotate: (job, key, value) => raw.annotate(job, key, JSON.stringify(value)),
    rekey: (job) => raw.rekey(job),
    wakeAt: (time) => raw.wakeAt(time),
};

// ---- For the modules beside this one ----

function unsigned(job) {
    for (const field of ["priority", "userid", "nodes", "cores", "gpus"]) job[field] = u32(job[field]);
    return job;
}

/** A candidate with what it asks for. */
export const row = (found) => ({ candidate: u32(found.candidate), job: unsigned(found.job) });

/** The answers about all these candidates, asked for in portions. */
export function portions(jobs, ask) {
    const found = [];
    for (let at = 0; at < jobs.length; at += JOBS_MAX) {
        for (const each of ask(jobs.slice(at, at + JOBS_MAX))) found.push(each);
    }
    return found;
}

/** Columns of rows, which come one row after another, as an array for each row. */
export function amounts(jobs, ask) {
    const answers = portions(jobs, ask);
    const columns = answers.length / jobs.length;
    return jobs.map((_, i) => answers.slice(i * columns, (i + 1) * columns));
}

/** Null, or what the host answered to a question that it refused. */
export function refusal(question) {
    try {
        question();
        return null;
    } catch (why) {
        // The engine throws an error that carries what the host answered; anything else is a mistake.
        if (typeof why.payload !== "string") throw why;
        return why.payload;
    }
}

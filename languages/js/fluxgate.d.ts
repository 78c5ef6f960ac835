// Types of fluxgate.js, and of what a policy exports. `policy.wit` documents each question.
//
// SPDX-License-Identifier: Apache-2.0

/** A candidate of the pass; valid only within it. */
export type Candidate = number;

/** An RFC 19 FLUID, exact up to 2^53 only. */
export type JobId = number;

/** Why the host refused a proposal. After `limit`, end the pass. */
export type Refusal = "busy" | "delays-reservation" | "unsatisfiable" | "not-eligible" | "limit";

/** The scalars of a candidate. Times and durations are seconds; a duration of Infinity means no limit. */
export interface Job {
    id: JobId;
    tSubmit: number;
    duration: number;
    priority: number;
    userid: number;
    nodes: number;
    cores: number;
    gpus: number;
}

/** A candidate with what it asks for. */
export interface Row {
    candidate: Candidate;
    job: Job;
}

/** A start that is reserved, or the refusal; the other is null. */
export type Reservation = { start: number; refusal: null } | { start: null; refusal: Refusal };

/** A u32 of the host's records, whatever its sign. */
export function u32(value: number): number;

/** Candidates of one question, at most. */
export const JOBS_MAX: number;

export function log(level: "error" | "warn" | "info" | "debug", message: string): void;

export const machine: {
    totals(): {
        nodes: number;
        cores: number;
        gpus: number;
        freeNodes: number;
        freeCores: number;
        freeGpus: number;
        running: number;
        pending: number;
    };
    queueCount(): number;
    queueName(index: number): string;
};

/** One pass over a queue; only inside `scheduling.run`. */
export const pass: {
    now(): number;
    queue(): number;
    /** The next candidate in order, or null when none is left. */
    next(): Candidate | null;
    /** Like `next`, without candidates that cannot start now, as far as the host knows. */
    nextFitting(): Candidate | null;
    rewind(): void;
    describe(job: Candidate): Job;
    fits(job: Candidate): boolean;
    earliest(job: Candidate): number;
    /** Null after a start. */
    start(job: Candidate): Refusal | null;
    startPlaced(job: Candidate, placement: number): Refusal | null;
    reserve(job: Candidate): Reservation;
    /** The number of a placement preference, or null when this host does not support it. */
    placement(name: string): number | null;
    /** `value` is any JSON value; null removes the annotation. */
    annotate(job: Candidate, key: string, value: unknown): void;
    rekey(job: Candidate): void;
    wakeAt(time: number): void;
};

// ---- What a policy exports: `export const policy: Policy = { ... }`, and an ability for each line of its world ----

export interface ConfigKey {
    name: string;
    kind: "boolean" | "integer" | "float" | "duration" | "text";
    default: string;
    help: string;
}

export interface Policy {
    describe(): { name: string; version: string; summary: string; config: ConfigKey[] };
    /** A text that is thrown refuses the settings. */
    configure(values: [name: string, value: string][]): void;
}

/** A batch of jobs, one array for each field; row i is job i. Numbers of 32 bits may have a sign here; see `u32`. */
export interface JobColumns {
    id: JobId[];
    tSubmit: number[];
    duration: number[];
    priority: number[];
    userid: number[];
    queue: number[];
    nodes: number[];
    cores: number[];
    gpus: number[];
}

export interface Ordering {
    /** One key for each row; smaller comes first, NaN is a breach of the contract. */
    keys(now: number, jobs: JobColumns): number[];
}

export interface Scheduling {
    /** One pass. It must return: fuel is bounded. */
    run(): void;
}

export interface JobEvent {
    kind: "pending" | "started" | "ended" | "removed" | "priority" | "expiration";
    job: JobId;
    time: number;
    /** Its meaning depends on the kind. */
    value: number;
}

export interface Observing {
    observe(now: number, events: JobEvent[]): void;
}

export interface State {
    save(): [version: number, data: Uint8Array];
    /** A text that is thrown means that the policy starts cold. */
    restore(from: string, version: number, data: Uint8Array): void;
}

/** A node, whoever holds something of it. */
export interface Node {
    rank: number;
    host: string;
    /** Where it is, from the top; empty on machines without racks. */
    path: string;
    properties: string[];
    holds: { kind: string; amount: number; unit: string }[];
}

export interface Ranking {
    /** One score for each node; smaller ones are taken first, NaN is a breach of the contract. */
    scores(nodes: Node[]): number[];
}

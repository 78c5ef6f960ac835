// Types of flow.js.
import type { Candidate, Reservation } from "./fluxgate.js";

export interface Kind {
    name: string;
    unit: string;
    total: number;
    free: number;
}

export interface Span {
    start: number;
    end: number;
    amount: number;
}

export const flow: {
    kinds(): Kind[];
    amounts(jobs: Candidate[]): number[][];
    spans(kind: number): Span[];
    earliestAfter(job: Candidate, time: number): number;
    reserveAfter(job: Candidate, time: number): Reservation;
};

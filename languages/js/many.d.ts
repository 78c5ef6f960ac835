// Types of many.js.
import type { Candidate, Row } from "./fluxgate.js";

export const many: {
    next(most: number): Row[];
    startOrReserve(jobs: Candidate[]): number[];
    renew(count: number): { id: bigint; start: number }[] | undefined;
};

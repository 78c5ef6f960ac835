// Types of many.js.
import type { Candidate, Row } from "./fluxgate.js";

export const many: {
    next(most: number): Row[];
    startOrReserve(jobs: Candidate[]): number[];
    startOrReserveNext(reservations: number, unknown: number): boolean;
    backfill(reservations: number, unknown: number, holds: boolean): boolean;
    renew(count: number): { id: bigint; start: number }[] | undefined;
};

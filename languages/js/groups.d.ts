// Types of groups.js.
import type { Candidate, Row } from "./fluxgate.js";

export class Kept {
    heads(wanted?: { byCores?: boolean }): Row[];
}

export const groups: {
    heads(wanted?: { byCores?: boolean; fitting?: boolean }): Row[];
    next(job: Candidate, wanted?: { fitting?: boolean }): Row | null;
};

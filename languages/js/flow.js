// What flows to nodes beside their cores, such as power or bandwidth; `flow.wit`. The world of the policy needs `with-flow`.
//
// SPDX-License-Identifier: Apache-2.0
import raw from "fluxgate:policy/flow@0.1.0";

import { amounts, refusal } from "./fluxgate.js";

/** Amounts are whole numbers of a kind's unit, exact up to 2^53. */
export const flow = {
    /** `{ name, unit, total, free }` of each kind, none where nothing flows. Below, a kind is its place in this list. */
    kinds: () => raw.kinds(),
    /** For each of these candidates, the least that it takes of each kind. */
    amounts: (jobs) => amounts(jobs, raw.asked),
    /** `{ start, end, amount }`: first what is held, from -Infinity, by end; then reservations by start. */
    spans: (kind) => raw.spans(kind),
    /** `pass.earliest` for a start at this time or later. NaN is a breach of the contract. */
    earliestAfter: (job, time) => raw.earliestAfter(job, time),
    /** `pass.reserve` for a start at this time or later. NaN is a breach of the contract. */
    reserveAfter(job, time) {
        let start = null;
        const why = refusal(() => {
            start = raw.reserveAfter(job, time);
        });
        return { start, refusal: why };
    },
};

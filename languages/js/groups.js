// The candidates of a pass by group; `groups.wit`. The world of the policy needs `with-groups`.
//
// SPDX-License-Identifier: Apache-2.0
import raw from "fluxgate:policy/groups@0.1.0";

import { JOBS_MAX, pass, row } from "./fluxgate.js";

/** The first candidates of the groups of each queue, so that a pass is told only of those that changed since the last one. */
export class Kept {
    #queues = new Map();

    /** The first candidate of each group that has one. To be called before the first start or reservation of a pass. */
    heads({ byCores = false } = {}) {
        const queue = pass.queue();
        let first = this.#queues.get(queue) ?? [];
        for (;;) {
            const { all, heads } = raw.changed(byCores);
            if (all) first = [];
            for (const head of heads) first[head.group] = head.first == null ? undefined : row(head.first);
            if (heads.length < JOBS_MAX) break;
        }
        this.#queues.set(queue, first);
        return first.filter((row) => row !== undefined);
    }
}

/** The jobs of a group have one user and one priority, and come in the order of submission. */
export const groups = {
    /**
     * The first candidate of each group that has one, as `{ candidate, job }`. With `byCores` the jobs of a group have one
     * number of fewest cores too; with `fitting`, candidates are left out that cannot start now, as far as the host knows.
     */
    heads({ byCores = false, fitting = false } = {}) {
        const all = [];
        for (;;) {
            const some = raw.heads({ byCores, fitting }, all.at(-1)?.candidate);
            all.push(...some.map(row));
            if (some.length < JOBS_MAX) return all;
        }
    },
    /** The next candidate of the group of this one, or null. */
    next(job, { fitting = false } = {}) {
        const found = raw.next(job, fitting);
        return found == null ? null : row(found);
    },
};

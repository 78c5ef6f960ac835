// Many candidates at once; `many.wit`. The world of the policy needs `with-many`.
//
// SPDX-License-Identifier: Apache-2.0
import raw from "fluxgate:policy/many@0.1.0";

import { JOBS_MAX, row } from "./fluxgate.js";

export const many = {
    /**
     * The next candidates, each as `{ candidate, job }`, at most `most` and at most 4096. Fewer only when none is left.
     */
    next: (most) => raw.next(Math.min(most, JOBS_MAX)).map(row),
    /**
     * Each in turn started, or else reserved: -Infinity, the reserved start, or NaN if neither was possible. Ends before the
     * first that is refused with `limit`, and at 4096.
     */
    startOrReserve: (jobs) => Array.from(raw.startOrReserve(jobs)),
    /**
     * `startOrReserve` of what `pass.next` gives, until `reservations` of them have been given a reservation, or for `unknown` of them
     * no start is known; with no reservations, until the first that has to wait. False if the pass is over: no candidate is left, a
     * bound of the host is reached, or one has to wait where none gets a reservation.
     */
    startOrReserveNext: (reservations, unknown) => raw.startOrReserveNext(reservations, unknown),
    /**
     * A whole pass in the order of the queue: `startOrReserveNext`, and if it is true `pass.start` of what `pass.nextFitting` gives. False,
     * with reservations, if a bound of the host is reached or no candidate is left for one. With `holds`, this policy asks
     * nothing but the same in each later pass of this queue, whatever has happened: the host may ask it in place of a call, and leaves
     * out a pass that only submissions require, if all decisions are the same without it.
     */
    backfill: (reservations, unknown, holds) => raw.backfill(reservations, unknown, holds),
    /**
     * Makes the reservations of the last pass of this queue anew: `startOrReserve` of each, in the order of their starts, and of equal
     * starts in the order of the queue. Returns those that have another start than before, as `{ id, start }`. Undefined, and nothing
     * is done, if this instance did not make them in that pass, if there are not `count` of them any more, after a question of this
     * pass that depends on reservations, and wherever the host cannot tell.
     */
    renew: (count) => raw.renew(count),
};

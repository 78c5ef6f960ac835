// Resources beside nodes, cores and gpus; `resources.wit`. The world of the policy needs `with-resources`.
//
// SPDX-License-Identifier: Apache-2.0
import raw from "fluxgate:policy/resources@0.1.0";

import { amounts } from "./fluxgate.js";

/** Amounts are whole numbers of a kind's unit, exact up to 2^53. */
export const resources = {
    /** `{ name, unit, total, free }` of each kind, none on a machine without such resources. */
    kinds: () => raw.kinds(),
    /** For each of these candidates, the least that it takes of each kind, in the order of `kinds`. */
    amounts: (jobs) => amounts(jobs, raw.asked),
};

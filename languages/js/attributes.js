// What is known of jobs beside what they ask for; `attributes.wit`. The world of the policy needs `with-attributes`.
//
// SPDX-License-Identifier: Apache-2.0
import raw from "fluxgate:policy/attributes@0.1.0";

import { portions } from "./fluxgate.js";

/**
 * Attributes are `memory` of the whole job in bytes, `group`, `application` and `name`. They are told by users and never
 * checked, and unknown for many jobs.
 */
export const attributes = {
    /** The attribute of each of these candidates as text; null where it is unknown. */
    texts: (name, jobs) => portions(jobs, (some) => raw.text(name, some)).map((text) => text ?? null),
    /** The same as numbers; NaN where it is unknown, or a text that is no finite number. */
    numbers: (name, jobs) => portions(jobs, (some) => raw.numbers(name, some)),
};

// my-policy: orders the queue so that short jobs overtake, but not for ever.
//
// The key of a job is its time of submission plus `weight` times its requested duration. A job that has waited that much
// longer comes first again.
//
// For a pass of one's own: `import { pass, type Scheduling } from "./sdk/fluxgate.js"`,
// `export const scheduling: Scheduling = { run() { ... } }`, and the line of its ability in wit/world.wit.
import type { Ordering, Policy } from "./sdk/fluxgate.js";

/** Seconds of waiting that one second of duration is worth. */
let weight = 1;

export const policy: Policy = {
    describe() {
        return {
            name: "my-policy",
            version: "0.1.0",
            summary: "Short jobs first, but no job waits for ever",
            config: [
                {
                    name: "weight",
                    kind: "float",
                    default: "1",
                    help: "seconds of waiting that one second of duration is worth, 0 or more",
                },
            ],
        };
    },

    // What is thrown refuses the settings.
    configure(values) {
        const given = Object.fromEntries(values).weight;
        weight = Number(given);
        if (!(Number.isFinite(weight) && weight >= 0)) throw `\`weight\` is ${given}, but must be 0 or more`;
    },
};

export const ordering: Ordering = {
    keys(now, jobs) {
        // A job without limit has an infinite duration, and 0 times that is not a number.
        return jobs.tSubmit.map((submitted, i) => (weight === 0 ? submitted : submitted + weight * jobs.duration[i]));
    },
};

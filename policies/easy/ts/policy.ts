// The policy `easy` in TypeScript; the rule is in ../README.md, the same in Rust in ../src and guest-sdk/src/backfill.rs.
import { pass, type Policy, type Scheduling } from "../../../languages/js/fluxgate.js";

/** Heads without any start time that are passed over in one pass. */
const PASSED_OVER_MAX = 64;
const DEPTH_MAX = 1000;

/** Number of waiting jobs that get a reservation in one pass. */
let depth = 1;

export const policy: Policy = {
    describe() {
        return {
            name: "easy-ts",
            version: "0.1.0",
            summary: "EASY backfilling in TypeScript: what does not delay the first waiting job may start before it",
            config: [
                {
                    name: "depth",
                    kind: "integer",
                    default: "1",
                    help: "how many waiting jobs have a reservation, 1 to 1000",
                },
            ],
        };
    },

    configure(values) {
        depth = Number(Object.fromEntries(values).depth);
        if (!(Number.isInteger(depth) && depth >= 1 && depth <= DEPTH_MAX)) {
            throw `\`depth\` is ${depth}, but must be between 1 and ${DEPTH_MAX}`;
        }
    },
};

/** Until `depth` jobs have a reservation: start the next, else reserve its earliest start. False ends the pass. */
function heads(): boolean {
    let reserved = 0;
    let passedOver = 0;
    while (reserved < depth && passedOver < PASSED_OVER_MAX) {
        const job = pass.next();
        if (job === null) return false;
        const refusal = pass.start(job);
        if (refusal === "limit") return false;
        if (refusal === "busy" || refusal === "delays-reservation") {
            const reservation = pass.reserve(job);
            if (reservation.refusal === "limit") return true;
            // A job that can be given no time is passed over.
            if (reservation.start !== null && Number.isFinite(reservation.start)) reserved += 1;
            else passedOver += 1;
        }
    }
    return true;
}

export const scheduling: Scheduling = {
    run() {
        if (!heads()) return;
        for (let job = pass.nextFitting(); job !== null; job = pass.nextFitting()) {
            if (pass.start(job) === "limit") return;
        }
    },
};

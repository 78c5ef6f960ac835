// Types of resources.js.
import type { Kind } from "./flow.js";
import type { Candidate } from "./fluxgate.js";

export const resources: {
    kinds(): Kind[];
    amounts(jobs: Candidate[]): number[][];
};

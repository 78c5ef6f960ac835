// Types of attributes.js.
import type { Candidate } from "./fluxgate.js";

export type Name = "memory" | "group" | "application" | "name";

export const attributes: {
    texts(name: Name, jobs: Candidate[]): (string | null)[];
    numbers(name: Name, jobs: Candidate[]): number[];
};

import assert from "node:assert/strict";
import { test } from "node:test";

import { ordering, policy } from "./policy.js";
import type { JobColumns } from "./sdk/fluxgate.js";

/** Jobs of one core. */
function jobs(tSubmit: number[], duration: number[]): JobColumns {
    const each = (value: number) => tSubmit.map(() => value);
    return {
        id: tSubmit.map((_, i) => i),
        tSubmit,
        duration,
        priority: each(16),
        userid: each(1),
        queue: each(0),
        nodes: each(0),
        cores: each(1),
        gpus: each(0),
    };
}

test("a short job overtakes until the long one has waited", () => {
    policy.configure([["weight", "1"]]);
    const keys = ordering.keys(0, jobs([0, 50, 95], [100, 10, 10]));
    assert.ok(keys[1] < keys[0] && keys[0] < keys[2], String(keys));
});

test("without weight it is first come, first served", () => {
    policy.configure([["weight", "0"]]);
    assert.deepEqual(ordering.keys(0, jobs([0, 50], [Infinity, 10])), [0, 50]);
});

test("a weight below zero is refused", () => {
    for (const weight of ["-1", "inf", "much"]) {
        assert.throws(() => policy.configure([["weight", weight]]), (why) => String(why).includes("0 or more"));
    }
});

import assert from "node:assert/strict";
import { test } from "node:test";

import { ordering, policy } from "./policy.js";

test("a short job overtakes until the long one has waited", () => {
    policy.configure([["weight", "1"]]);
    const keys = ordering.keys(0, { tSubmit: [0, 50, 95], duration: [100, 10, 10] });
    assert.ok(keys[1] < keys[0] && keys[0] < keys[2], keys);
});

test("without weight it is first come, first served", () => {
    policy.configure([["weight", "0"]]);
    const keys = ordering.keys(0, { tSubmit: [0, 50], duration: [Infinity, 10] });
    assert.deepEqual(keys, [0, 50]);
});

test("a weight below zero is refused", () => {
    for (const weight of ["-1", "inf", "much"]) {
        assert.throws(() => policy.configure([["weight", weight]]), (why) => why.includes("0 or more"));
    }
});

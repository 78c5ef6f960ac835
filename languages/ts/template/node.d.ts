// As much of node's types as policy.test.ts needs. For all of them install `@types/node` and delete this file.

declare module "node:test" {
    export function test(name: string, body: () => void): void;
}

declare module "node:assert/strict" {
    const assert: {
        ok(value: unknown, message?: string): void;
        deepEqual(actual: unknown, expected: unknown): void;
        throws(body: () => void, expected: (why: unknown) => boolean): void;
    };
    export default assert;
}

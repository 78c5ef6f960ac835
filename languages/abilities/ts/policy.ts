// The policy `abilities` in TypeScript; the rules are in ../README.md.
import { attributes } from "../../js/attributes.js";
import { flow } from "../../js/flow.js";
import {
    pass,
    type Candidate,
    type Node,
    type Policy,
    type Ranking,
    type Row,
    type Scheduling,
} from "../../js/fluxgate.js";
import { groups, Kept } from "../../js/groups.js";
import { many } from "../../js/many.js";
import { resources } from "../../js/resources.js";

/** Candidates of one question. */
const MOST = 256;

const kept = new Kept();

function behind(heads: Row[]) {
    for (const head of heads) {
        for (let row: Row | null = head; row !== null; row = groups.next(row.candidate, { fitting: true })) {
            if (pass.start(row.candidate) === "limit") return;
        }
    }
}

const rules: Record<string, () => void> = {
    many() {
        for (;;) {
            const rows = many.next(MOST);
            const answers = many.startOrReserve(rows.map((row) => row.candidate));
            if (answers.length < rows.length || rows.length < MOST) return;
        }
    },

    backfill() {
        many.backfill(1, 64, true);
    },

    groups() {
        behind(groups.heads({ fitting: true }));
    },

    changed() {
        behind(kept.heads());
    },

    flow() {
        for (let job = pass.next(); job !== null; job = pass.next()) {
            if (leavesHalf(job) && pass.start(job) === null) continue;
            const after = lastEnd();
            const earliest = flow.earliestAfter(job, after);
            const { start, refusal } = flow.reserveAfter(job, after);
            if (refusal === null && start !== earliest) throw "the host reserves what it said would be the earliest start";
            return;
        }
    },

    resources() {
        if (resources.kinds().length === 0) inTurns(1, (jobs) => jobs.map(() => 0));
        else inTurns(2, (jobs) => resources.amounts(jobs).map((of) => (of.some((amount) => amount > 0) ? 0 : 1)));
    },

    // The jobs of group 7, then those whose memory is known, then the others.
    attributes() {
        inTurns(3, (jobs) => {
            const memory = attributes.numbers("memory", jobs);
            return attributes.texts("group", jobs).map((group, i) => (group === "7" ? 0 : Number.isNaN(memory[i]) ? 2 : 1));
        });
    },
};

/** True if this start leaves half of each kind free. */
function leavesHalf(job: Candidate): boolean {
    const [amounts] = flow.amounts([job]);
    return flow.kinds().every((kind, i) => kind.free - amounts[i] >= Math.floor(kind.total / 2));
}

/** The last end of what is held of any kind. */
function lastEnd(): number {
    const spans = flow.kinds().flatMap((_, kind) => flow.spans(kind));
    const held = spans.filter((span) => span.start === -Infinity && Number.isFinite(span.end));
    return Math.max(pass.now(), ...held.map((span) => span.end));
}

/** Starts what fits of the jobs in each turn; `of` has the turn of each. */
function inTurns(turns: number, of: (jobs: Candidate[]) => number[]): void {
    for (let turn = 0; turn < turns; turn += 1) {
        pass.rewind();
        let rows: Row[];
        do {
            rows = many.next(MOST);
            const jobs = rows.map((row) => row.candidate);
            of(jobs).forEach((itsTurn, i) => {
                if (itsTurn === turn) pass.start(jobs[i]);
            });
        } while (rows.length === MOST);
    }
}

let chosen = rules.many;

export const policy: Policy = {
    describe() {
        const help = "many, backfill, groups, changed, flow, resources or attributes";
        return {
            name: "abilities-ts",
            version: "0.1.0",
            summary: "what the contract gained after its first release, in TypeScript",
            config: [{ name: "use", kind: "text", default: "many", help }],
        };
    },

    configure(values) {
        const { use } = Object.fromEntries(values);
        if (!Object.hasOwn(rules, use)) throw "`use` must be many, backfill, groups, changed, flow, resources or attributes";
        chosen = rules[use];
    },
};

export const scheduling: Scheduling = {
    run: () => chosen(),
};

export const ranking: Ranking = {
    scores: (nodes) => nodes.map(score),
};

function score(node: Node): number {
    let score = node.properties.includes("last") ? 1e9 : 0;
    for (const hold of node.holds) if (hold.kind === "core") score -= hold.amount;
    return score;
}

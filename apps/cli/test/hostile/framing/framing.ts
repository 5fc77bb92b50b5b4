import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { eventually } from '@weighbridge/testing';
import { randomFrom } from '../../faults/random.ts';
import { chat } from '../hostileCase.ts';
import { growthDuring, operate } from '../product.ts';
import type { Scene, Tenant } from '../scene.ts';
import { answersIn, type WireAnswer } from './answers.ts';
import { type Conversation, conversation } from './requests.ts';

const AT_ONCE = 12;
const PER_TENANT = 150;
/** A connection whose client has ended its side has nothing to wait for. */
const HANGS_MS = 20_000;
const MARKER = /m\d+[fg]x\d+x/g;

export interface FramingResult {
  readonly conversations: number;
  /** Final answers by status; `none`: conversations without one. */
  readonly statuses: Readonly<Record<string, number>>;
  readonly rows: number;
  /** Warnings and errors in the log. */
  readonly lines: number;
  /** The most that the process grew, in bytes. */
  readonly growth: number;
  readonly wrong: readonly object[];
}

type Row = { attribution: { labels?: { n?: string } }; attempts: { outcome: string }[] };

/** Sends this many conversations, each from a program and from a page, and checks every answer and the ledger. */
export async function fuzzFraming(scene: Scene, count: number, seed: number): Promise<FramingResult> {
  const run = new Framing(scene, seed);
  const before = scene.product.output().length;
  const growth = await growthDuring(scene.product, 'inference', () => run.send(count));
  await run.checkLedger();
  // The request log, at level info, is bounded by the second.
  const lines =
    scene.product
      .output()
      .slice(before)
      .match(/^.*"level":[456]0.*$/gm)?.length ?? 0;
  return {
    conversations: 2 * count,
    statuses: run.statuses,
    rows: run.rows,
    lines,
    growth,
    wrong: run.wrong,
  };
}

const LAST_EVENT = 'data: [DONE]\n\n';

class Framing {
  readonly statuses: Record<string, number> = {};
  readonly wrong: object[] = [];
  rows = 0;
  readonly #scene: Scene;
  readonly #seed: number;
  readonly #tenants: Tenant[] = [];
  /** The markers of whole successful answers, of cut ones, and of those whose client left. */
  readonly #served = new Set<string>();
  readonly #cut = new Set<string>();

  constructor(scene: Scene, seed: number) {
    this.#scene = scene;
    this.#seed = seed;
  }

  async send(count: number): Promise<void> {
    for (let from = 0; from < count; from += PER_TENANT) {
      const tenant = await this.#scene.tenant();
      this.#tenants.push(tenant);
      let next = from;
      const to = Math.min(count, from + PER_TENANT);
      const worker = async () => {
        for (let at = next++; at < to; at = next++) await this.#one(at, tenant);
      };
      await Promise.all(Array.from({ length: AT_ONCE }, worker));
      const { status } = await tenant.ask('/v1/chat/completions', chat('local/plain'));
      if (status !== 200) this.wrong.push({ what: 'the server does not answer any more', at: to, status });
    }
  }

  async #one(at: number, tenant: Tenant): Promise<void> {
    const seed = this.#seed * 1_000_003 + at;
    const of = (path: 'f' | 'g') => conversation(randomFrom(seed), tenant.key, `m${at}${path}`, path === 'g');
    const [program, page] = [of('f'), of('g')];
    const answers = await Promise.all([this.#exchange(at, program), this.#exchange(at, page)]);
    // Where more is sent than one request, it depends on the moment which answers were out before the rest arrived; and a
    // cut is not at the same byte.
    const isAlone = program.markers.length === 1 && program.leaves === 'end' && program.cuts.length === 0;
    if (!isAlone || !isComparable(program, page)) return;
    const [one, other] = answers.map((list) => list.map(({ status }) => status).join());
    if (one !== other)
      this.#complain(at, 'a page gets another answer', program, { program: one, page: other });
  }

  async #exchange(at: number, sent: Conversation): Promise<readonly WireAnswer[]> {
    const text = await exchange(this.#scene.product.inferenceUrl, sent);
    if (text === undefined) {
      this.#complain(at, 'the connection hangs', sent);
      return [];
    }
    const { answers, rest } = answersIn(text);
    if (rest !== '') this.#complain(at, 'something that is no answer', sent, { rest: rest.slice(0, 200) });
    if (answers.length > sent.markers.length + 1) this.#complain(at, 'too many answers', sent, { text });
    this.#checkMarkers(at, sent, answers);
    for (const { status } of answers) this.statuses[status] = (this.statuses[status] ?? 0) + 1;
    if (answers.length === 0) this.statuses.none = (this.statuses.none ?? 0) + 1;
    if (answers.some(({ status }) => status >= 500 && status !== 501 && status !== 505)) {
      this.#complain(at, 'a failure', sent, { text: text.slice(0, 600) });
    }
    return answers;
  }

  /** Each answer has its own request's marker, or none, in the order of the requests. */
  #checkMarkers(at: number, sent: Conversation, answers: readonly WireAnswer[]): void {
    let last = -1;
    for (const { status, body, isWhole } of answers) {
      const found = new Set(body.match(MARKER) ?? []);
      const [marker] = found;
      if (found.size > 1) this.#complain(at, 'two markers in one answer', sent, { found: [...found] });
      if (marker === undefined) continue;
      const index = sent.markers.indexOf(marker);
      if (index <= last) this.#complain(at, 'the answer to another request', sent, { marker, index, last });
      last = index;
      if (status !== 200 || !sent.labelled.includes(marker)) continue;
      // What a client that closed its connection did not read may have been sent all the same.
      if (isWhole) this.#served.add(marker);
      // A stream whose last event has arrived is served, also if bad bytes behind its request end the connection before its last chunk.
      else if (sent.leaves === 'end' && !body.includes(LAST_EVENT)) this.#cut.add(marker);
    }
  }

  /** Each served request has one row, in which it is served; no request has two, and none that was cut is served. */
  async checkLedger(): Promise<void> {
    const counts = new Map<string, string[]>();
    for (const { keyId } of this.#tenants) {
      await eventually(
        async () => {
          const seen = await this.#readRows(keyId);
          const missing = [...this.#served].filter(
            (marker) => seen.of.has(marker) !== true && seen.isMine(marker),
          );
          if (missing.length > 0) throw new Error(`not in the ledger: ${missing.slice(0, 5).join()}`);
          for (const [marker, outcomes] of seen.of) counts.set(marker, outcomes);
        },
        { intervalMs: 250 },
      );
    }
    this.rows = counts.size;
    for (const [marker, outcomes] of counts) {
      const isServed = this.#served.has(marker);
      const [outcome = ''] = outcomes;
      const isRight = isServed ? outcome === 'success' : /^(success|client_gone|interrupted)$/.test(outcome);
      const isCutButServed = this.#cut.has(marker) && outcome === 'success';
      if (outcomes.length !== 1 || !isRight || isCutButServed) {
        this.wrong.push({ what: 'the ledger is wrong', seed: this.#seed, marker, isServed, outcomes });
      }
    }
  }

  async #readRows(keyId: string) {
    const of = new Map<string, string[]>();
    let token = '';
    do {
      const query = `?key_id=${keyId}&page_size=500${token && `&page_token=${encodeURIComponent(token)}`}`;
      const page = await operate(this.#scene.product, 'GET', `/api/v1/requests${query}`);
      for (const { attribution, attempts } of page.data as Row[]) {
        const marker = attribution.labels?.n;
        // A refused request has a row without attempts.
        if (marker === undefined || attempts.length === 0) continue;
        of.set(marker, [...(of.get(marker) ?? []), ...attempts.map(({ outcome }) => outcome)]);
      }
      token = String(page.next_page_token ?? '');
    } while (token !== '');
    const tenant = this.#tenants.findIndex((one) => one.keyId === keyId);
    const isMine = (marker: string) => {
      const at = Number(/\d+/.exec(marker)?.[0]);
      return Math.floor(at / PER_TENANT) === tenant;
    };
    return { of, isMine };
  }

  #complain(at: number, what: string, { bytes, cuts, leaves }: Conversation, more: object = {}): void {
    const sent = bytes
      .toString('latin1')
      .replace(/sk-svc-\w+/g, 'KEY')
      .slice(0, 1_500);
    this.wrong.push({ what, at, seed: this.#seed, sent, cuts: cuts.length, leaves, ...more });
  }
}

/** The Origin of a page moves what follows it: only requests that end where they should can be compared. */
function isComparable(program: Conversation, page: Conversation): boolean {
  const grown = 'Origin: https://page.example\r\n'.length;
  return page.bytes.length - program.bytes.length === grown;
}

/** All that came until the server closed the connection; undefined if it does not. */
async function exchange(url: string, { bytes, cuts, leaves }: Conversation): Promise<string | undefined> {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname).setEncoding('latin1').setNoDelay(true);
  let text = '';
  socket.on('data', (piece) => {
    text += piece;
  });
  socket.on('error', () => {});
  const closed = new Promise<true>((resolve) => socket.on('close', () => resolve(true)));
  let from = 0;
  for (const cut of [...cuts, bytes.length]) {
    if (socket.destroyed) break;
    socket.write(bytes.subarray(from, cut));
    from = cut;
    if (cut < bytes.length) await new Promise((resolve) => setImmediate(resolve));
  }
  if (leaves === 'destroy') {
    await sleep(bytes.length % 30);
    socket.destroy();
    return text;
  }
  socket.end();
  const isClosed = await Promise.race([closed, sleep(HANGS_MS, false, { ref: false })]);
  socket.destroy();
  return isClosed ? text : undefined;
}

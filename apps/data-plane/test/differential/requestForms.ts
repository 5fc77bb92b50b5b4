import type { IncomingHttpHeaders } from 'node:http';
import { isDeepStrictEqual } from 'node:util';
import { brotliDecompressSync, gunzipSync, inflateSync } from 'node:zlib';
import { Outcome, type UsageEvent } from '@weighbridge/contracts';
import { eventually } from '@weighbridge/testing';
import { Pool } from 'undici';
import { HARD, startProxy, type TestProxy } from '../proxy.ts';
import { type Answer, type Case, caseOf, type Received, send, startVendor, type Vendor } from './exchange.ts';
import { expectedCharge } from './referenceCharge.ts';
import { isJsonOf } from './referenceRequest.ts';
import { referenceEvents, seen, visibleEvents } from './referenceResponse.ts';
import type { FuzzResponse } from './responses.ts';
import type { Difference } from './scanners.ts';

const AT_ONCE = 16;
/** A proxy keeps its events in its spool: a new one begins after as many cases. */
const PER_PROXY = 4_000;
const DECOMPRESS = { gzip: gunzipSync, deflate: inflateSync, br: brotliDecompressSync };

export interface FormFigures {
  readonly cases: number;
  /** Answers to the plain form by status. */
  readonly statuses: Readonly<Record<number, number>>;
  /** Cases whose charge was computed from what the vendor reported. */
  readonly charged: number;
  readonly differences: readonly Difference[];
}

/**
 * Sends each generated request in its plain form and in another one, to a vendor that gives generated answers, and compares: what
 * reaches the vendor, the answers, the usage events and their charge, with each other and with what the reference expects.
 */
export async function compareForms(cases: number, seed: number): Promise<FormFigures> {
  const comparison = new Comparison(seed);
  for (let from = 0; from < cases; from += PER_PROXY)
    await comparison.run(from, Math.min(cases, from + PER_PROXY));
  return {
    cases,
    statuses: comparison.statuses,
    charged: comparison.charged,
    differences: comparison.differences,
  };
}

class Comparison {
  readonly statuses: Record<number, number> = {};
  readonly differences: Difference[] = [];
  charged = 0;
  readonly #seed: number;

  constructor(seed: number) {
    this.#seed = seed;
  }

  async run(from: number, to: number): Promise<void> {
    const vendor = await startVendor();
    const proxy = await startProxy({
      vendorUrl: vendor.url,
      headroomNanoUsd: () => 10n ** 17n,
    });
    const client = new Pool(proxy.url, { connections: 2 * AT_ONCE });
    try {
      let next = from;
      const compared: Compared[] = [];
      const worker = async () => {
        for (let at = next++; at < to; at = next++)
          compared.push(await this.#send(client, vendor, caseOf(this.#seed, at)));
      };
      await Promise.all(Array.from({ length: AT_ONCE }, worker));
      await this.#compareEvents(proxy, vendor.received.size, compared);
      if (proxy.memory.usedBytes !== 0)
        this.#complain(from, Buffer.alloc(0), 'memory that is held', proxy.memory.usedBytes);
    } finally {
      await client.close();
      await proxy.close();
      await vendor.close();
    }
  }

  async #send(client: Pool, vendor: Vendor, one: Case): Promise<Compared> {
    const [plainId, otherId] = [`${one.at}p`, `${one.at}o`];
    vendor.answers.set(plainId, one).set(otherId, one);
    const [plain, other] = await Promise.all([
      send(client, one, plainId, 'plain'),
      send(client, one, otherId, one.form),
    ]);
    for (const id of [plainId, otherId]) vendor.answers.delete(id);
    const { status } = plain;
    this.statuses[status] = (this.statuses[status] ?? 0) + 1;
    const complain = (what: string, more: unknown) => this.#complain(one.at, one.request.bytes, what, more);
    const sent = { plain: vendor.received.get(plainId), other: vendor.received.get(otherId) };
    comparePair(one, { plain, other }, sent, complain);
    compareWithReference(one, plain, sent.plain, complain);
    return { one, plain, other, isSent: sent.plain !== undefined };
  }

  /** Each request that reached the vendor has one event, alike in both forms, and charged as the vendor says. */
  async #compareEvents(proxy: TestProxy, sent: number, compared: readonly Compared[]): Promise<void> {
    await eventually(async () => {
      if (proxy.events.length < sent) throw new Error(`${proxy.events.length} events of ${sent} requests`);
    });
    const events = new Map<string, UsageEvent[]>();
    for (const event of proxy.events)
      events.set(event.requestId, [...(events.get(event.requestId) ?? []), event]);
    for (const { one, plain, other, isSent } of compared) {
      const complain = (what: string, more: unknown) =>
        this.#complain(one.at, one.response.bytes, what, more);
      const of = (answer: Answer) => events.get(String(answer.headers['x-request-id'])) ?? [];
      const [mine, others] = [of(plain), of(other)];
      if (mine.length !== (isSent ? 1 : 0)) complain('the number of events', mine.length);
      if (!isDeepStrictEqual(mine.map(comparable), others.map(comparable)))
        complain('the events of the forms', [mine, others]);
      const [event] = mine;
      if (event && this.#isCharged(one, plain, event, complain)) this.charged++;
    }
  }

  /** False if the reference knows no charge: what the vendor did not report is estimated. */
  #isCharged(
    one: Case,
    answer: Answer,
    event: UsageEvent,
    complain: (what: string, more: unknown) => void,
  ): boolean {
    const shown = answer.headers['x-svc-cost-micro-usd'];
    if (shown !== undefined && String(shown) !== String((event.costNanoUsd + 500n) / 1_000n)) {
      complain('the cost in the head', { shown, event });
    }
    if (one.response.isDamaged || event.outcome !== Outcome.SUCCESS) return false;
    const expected = expectedCharge(one.request.operation.responseFormat, one.response);
    if (expected === undefined) {
      if (!event.estimated) complain('a charge for what is not reported', event);
      return false;
    }
    const { estimated, costNanoUsd } = event;
    if (estimated || (expected !== 'priced by terms' && costNanoUsd !== expected))
      complain('the charge', { expected, event });
    return expected !== 'priced by terms';
  }

  #complain(at: number, input: Buffer, what: string, more: unknown): void {
    const seed = this.#seed + at;
    this.differences.push({ what, seed, input: input.toString('latin1').slice(0, 2_000), more });
  }
}

interface Compared {
  readonly one: Case;
  readonly plain: Answer;
  readonly other: Answer;
  readonly isSent: boolean;
}

type Complain = (what: string, more: unknown) => void;
type Pair<Value> = { readonly plain: Value; readonly other: Value };

function comparePair(
  one: Case,
  { plain, other }: Pair<Answer>,
  sent: Pair<Received | undefined>,
  complain: Complain,
): void {
  const form = one.form;
  if (plain.status !== other.status)
    complain('the status', { form, plain: plain.status, other: other.status });
  const [heads, bodies] = [[plain, other].map(headOf), [plain, other].map(bodyOf)];
  if (!isDeepStrictEqual(heads[0], heads[1])) complain('the heads of the answers', { form, heads });
  if (bodies[0] !== bodies[1]) complain('the bodies of the answers', { form, bodies });
  const received = [sent.plain, sent.other].map(
    (request) => request && { ...request, headers: upstreamHead(request.headers) },
  );
  if (!isDeepStrictEqual(received[0], received[1])) complain('what the vendor got', { form, received });
}

/** What differs from one request to the next. */
const VOLATILE: ReadonlySet<string> = new Set([
  'date',
  'x-request-id',
  'request-id',
  'x-svc-overhead-ms',
  'x-mock-case',
]);

const headOf = ({ headers }: Answer) =>
  Object.entries(headers)
    .filter(([name]) => !VOLATILE.has(name))
    .sort();
const upstreamHead = (headers: IncomingHttpHeaders) =>
  Object.entries(headers)
    .filter(([name]) => !VOLATILE.has(name))
    .sort();

/** Errors have the id of the request. */
function bodyOf({ headers, body }: Answer): string {
  return body.toString('latin1').replaceAll(String(headers['x-request-id']), 'ID');
}

function compareWithReference(
  one: Case,
  answer: Answer,
  received: Received | undefined,
  complain: Complain,
): void {
  const { expected, response, token } = one;
  const { fate, upstream } = expected;
  const { status } = answer;
  const refusals: Readonly<Record<string, number>> = {
    malformed: 400,
    ambiguous: 400,
    'invalid model': 400,
    'unknown model': 404,
  };
  const refusal = refusals[fate];
  if (refusal !== undefined && (status !== refusal || received)) complain('no refusal', { fate, status });
  // A hard budget refuses what it can't bound, and limits what it lets pass.
  const isForwarded = received !== undefined;
  if (fate === 'forwarded' && !isForwarded && token !== HARD)
    complain('a refusal', { status, body: String(answer.body) });
  if (!received) return;
  if (upstream && token !== HARD && !isJsonOf(received.body, upstream)) {
    complain('the body for the vendor', { sent: received.body.toString(), upstream });
  }
  if (status === response.status) compareAnswer(one, answer, complain);
  else complain('the status of the answer', { status, expected: response.status });
}

function compareAnswer(
  { request, expected, response }: Case,
  { headers, body }: Answer,
  complain: Complain,
): void {
  const { bytes, contentType } = response;
  if (headers['content-type'] !== contentType) complain('the type of the answer', headers);
  const encoding = headers['content-encoding'] as keyof typeof DECOMPRESS | undefined;
  const shown = encoding ? DECOMPRESS[encoding](body) : body;
  if (!(expected.hidesUsage && isRelayedAsStream(response))) {
    if (!shown.equals(bytes)) complain('the bytes of the answer', shown.toString('latin1'));
    return;
  }
  if (response.isDamaged || !response.isStream) return;
  const visible = visibleEvents(request.operation.responseFormat, bytes);
  const events = referenceEvents(shown).map(seen);
  if (!isDeepStrictEqual(events, visible)) complain('what is visible of the answer', [events, visible]);
}

/** By its label alone. */
const isRelayedAsStream = ({ status, contentType }: FuzzResponse) =>
  status < 300 && contentType === 'text/event-stream';

/** What both forms must record alike: all but ids and times. */
function comparable(event: UsageEvent): object {
  const {
    eventId: _1,
    requestId: _2,
    admittedAtMs: _3,
    settledAtMs: _4,
    firstByteUs: _5,
    durationUs: _6,
    ...rest
  } = event;
  return rest;
}

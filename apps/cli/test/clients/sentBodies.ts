import type { MockVendor } from '@weighbridge/mock-vendor';
import { expect } from 'vitest';
import { startTap } from './tap.ts';

/** What differs in each run, and what replaces it here. */
const OF_A_RUN: readonly (readonly [RegExp, string])[] = [
  // Ids.
  [/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22,}/g, 'ID'],
  [/\b(call|toolu|msg|resp|fc|ctc|rs|chatcmpl|req|item)([-_][A-Za-z0-9]{6,}|[0-9a-f]{32}\b)/g, '$1_ID'],
  // The home folder of the test.
  [/client-home-[A-Za-z0-9]{6}/g, 'client-home'],
  // Of Claude Code: which installation it is.
  [/device_id(\W+)[0-9a-f]{64}/g, 'device_id$1ID'],
  // Of Codex: when a turn began, and how long a command took.
  [/turn_started_at_unix_ms(\W+)\d+/g, 'turn_started_at_unix_ms$1N'],
  [/chunk_id(\W+)[0-9a-f]{6}/g, 'chunk_id$1ID'],
  [/wall_time_seconds(\W+)[\d.e-]+/g, 'wall_time_seconds$1N'],
  [/Wall time [\d.]+ seconds/g, 'Wall time N seconds'],
  // Of Gemini CLI: the process that ran a command.
  [/Process Group PGID: \d+/g, 'Process Group PGID: N'],
];
const SHOWN = 80;

/**
 * A body with its ids replaced, so that two runs can be compared; undefined without one. The order of the fields does not
 * count. A stream of chat completions asks for its usage in any case: the service does, for those that do not.
 */
function comparable(text: string): unknown {
  if (text === '') return undefined;
  const replaced = OF_A_RUN.reduce((so, [made, name]) => so.replace(made, name), text);
  const body = JSON.parse(replaced) as Record<string, unknown>;
  if (body.stream !== true || !('messages' in body) || !('stream_options' in body)) return body;
  const { stream_options: options, ...rest } = body;
  const { include_usage: _, ...others } = options as Record<string, unknown>;
  return Object.keys(others).length === 0 ? rest : { ...rest, stream_options: others };
}

/**
 * The vendor got the same bodies as from a client that has the vendor's address: in the same order for each model, since
 * agents ask several at once.
 */
export async function expectSameBodies(
  vendor: MockVendor,
  sendTo: (url: string) => Promise<void>,
  vendorPath?: (path: string) => string,
): Promise<void> {
  const through = bodiesAt(vendor);
  const tap = await startTap(new URL(vendor.url).origin, vendorPath);
  try {
    await sendTo(tap.url);
    const sent = tap.sent.filter(({ method }) => method === 'POST').map(({ body }) => comparable(body));
    expect(sent.length).toBeGreaterThan(0);
    expect(differences(byModel(through), byModel(sent))).toEqual([]);
  } finally {
    await tap.close();
  }
}

function byModel(bodies: readonly unknown[]): unknown[] {
  const modelOf = (body: unknown) => String((body as { model?: unknown }).model ?? '');
  return [...bodies].sort((one, other) => modelOf(one).localeCompare(modelOf(other)));
}

/** The bodies that a vendor got. */
export function bodiesAt(vendor: MockVendor): unknown[] {
  const bodies = vendor.requests.map(({ body }) => comparable(body.toString()));
  return bodies.filter((body) => body !== undefined);
}

/** Each difference of the bodies of two runs once, without saying in which body: `field: this | that`. */
export function changes(bodies: readonly unknown[], others: readonly unknown[]): string[] {
  const found = differences(bodies, others).map((difference) => difference.replace(/^\/\d+\//, ''));
  return [...new Set(found)].sort();
}

/** Where two values differ, and how: `path: this | that`. Whole prompts would hide it. */
function differences(one: unknown, other: unknown, path = ''): string[] {
  if (Object.is(one, other)) return [];
  if (isObject(one) && isObject(other) && Array.isArray(one) === Array.isArray(other)) {
    const names = new Set([...Object.keys(one), ...Object.keys(other)]);
    return [...names].flatMap((name) => differences(one[name], other[name], `${path}/${name}`));
  }
  const [here, there] = [one, other].map((value) => JSON.stringify(value) ?? 'nothing') as [string, string];
  const at = Math.max(0, [...here].findIndex((character, at) => character !== there[at]) - SHOWN / 2);
  return [`${path}: ${here.slice(at, at + SHOWN)} | ${there.slice(at, at + SHOWN)}`];
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}

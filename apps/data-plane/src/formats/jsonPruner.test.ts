import { expectLinear } from '@weighbridge/testing';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { JsonRecord } from './jsonFields.ts';
import { JsonPruner } from './jsonPruner.ts';
import { PrunedItems, type Shape, shape } from './jsonShape.ts';
import { pruneJson } from './pruneJson.ts';

const keeps = ({ type }: JsonRecord) => type === 'call';
const ITEM = shape({ type: 'value', id: 'value' });
const INNER = shape({ usage: 'value', output: { items: ITEM, keeps } });
const SHAPE = shape({
  id: 'value',
  usage: 'value',
  error: 'presence',
  output: { items: ITEM, keeps },
  response: { members: INNER },
});

/** What the pruner must read, from what `JSON.parse` reads. */
function expected(value: unknown, wantedMembers: Shape): Record<string, unknown> {
  const result: Record<string, unknown> = {};
  for (const [name, wanted] of wantedMembers) {
    const member = isRecord(value) && Object.hasOwn(value, name) ? value[name] : undefined;
    if (wanted === 'value') result[name] = member;
    else if (wanted === 'presence') result[name] = member === undefined || member === null ? undefined : true;
    else if ('members' in wanted)
      result[name] = isRecord(member) ? expected(member, wanted.members) : undefined;
    else result[name] = Array.isArray(member) ? items(member, wanted.items) : undefined;
  }
  return result;
}

function items(all: unknown[], wanted: Shape) {
  const kept = all.filter(isRecord).map((item) => expected(item, wanted));
  return { count: all.length, kept: kept.filter(keeps) };
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** As a plain value, without members that are undefined. */
function plain(value: unknown): unknown {
  if (value instanceof PrunedItems) return { count: value.count, kept: value.kept.map(plain) };
  if (!isRecord(value)) return value;
  const members = Object.entries(value).filter(([, member]) => member !== undefined);
  return Object.fromEntries(members.map(([name, member]) => [name, plain(member)]));
}

const anyValue = fc.oneof(
  fc.jsonValue({ maxDepth: 4 }),
  fc.string({ minLength: 100, maxLength: 400 }),
  fc.constantFrom<unknown>('"usage":{"x":1}', '\\"', '{', ']', { usage: 3 }, [[{ type: 'call' }]]),
);
const item = fc.oneof(
  anyValue,
  fc.record({ type: fc.constantFrom<unknown>('call', 'message', 4), id: anyValue, other: anyValue }),
);
const memberOf = (depth: number): fc.Arbitrary<[string, string]> =>
  fc.oneof(
    fc.tuple(
      fc.constantFrom('id', 'usage', 'error'),
      anyValue.map((value) => JSON.stringify(value)),
    ),
    fc.tuple(
      fc.constantFrom('output'),
      fc.array(item, { maxLength: 4 }).map((value) => JSON.stringify(value)),
    ),
    fc.tuple(
      fc.string(),
      anyValue.map((value) => JSON.stringify(value)),
    ),
    ...(depth > 0 ? [fc.tuple(fc.constant('response'), objectText(depth - 1))] : []),
  );
const gap = fc.constantFrom('', ' ', '\n\t ');
/** Members may repeat, their names may be escaped, and white space may be anywhere. */
function objectText(depth: number): fc.Arbitrary<string> {
  const member = fc
    .tuple(memberOf(depth), fc.boolean(), gap, gap)
    .map(([[name, value], escapes, a, b]) => `${a}${keyText(name, escapes)}${b}:${a}${value}${b}`);
  return fc
    .tuple(fc.array(member, { maxLength: 6 }), gap)
    .map(([all, space]) => `{${all.join(',') || space}}`);
}
const keyText = (name: string, escapes: boolean) =>
  escapes
    ? `"${[...name].map((unit) => [...Array(unit.length).keys()].map((at) => `\\u${unit.charCodeAt(at).toString(16).padStart(4, '0')}`).join('')).join('')}"`
    : JSON.stringify(name);

describe('JsonPruner', () => {
  it('reads what JSON.parse reads, wherever the chunks end', () => {
    fc.assert(
      fc.property(objectText(2), fc.infiniteStream(fc.integer({ min: 1, max: 30 })), (text, sizes) => {
        const bytes = Buffer.from(` ${text}\n`);
        const pruner = new JsonPruner(SHAPE);
        for (let at = 0; at < bytes.length; ) {
          const size = sizes.next().value;
          // A copy that is overwritten: chunks belong to the socket.
          const chunk = Buffer.from(bytes.subarray(at, at + size));
          pruner.push(chunk);
          chunk.fill(0x22);
          at += size;
        }
        expect(pruner.isComplete).toBe(true);
        expect(plain(pruner.result)).toEqual(plain(expected(JSON.parse(text), SHAPE)));
        expect(plain(pruneJson(bytes, SHAPE))).toEqual(plain(pruner.result));
      }),
      { numRuns: 2_000 },
    );
  });

  it('reads the same at every split of one document', () => {
    const text = `{"a":[{"usage":1},"\\\\\\"usage"],"us\\u0061ge":{"n":[1,{"x":"}"}]},"output":[1,{"type":"call","id":"é😀"}],"response":{"usage":-1.5e3},"error":null}`;
    const bytes = Buffer.from(text);
    const whole = plain(expected(JSON.parse(text), SHAPE));
    for (let split = 0; split <= bytes.length; split++) {
      const pruner = new JsonPruner(SHAPE);
      pruner.push(bytes.subarray(0, split));
      pruner.push(bytes.subarray(split));
      expect(plain(pruner.result)).toEqual(whole);
    }
  });

  it('does not throw on bytes that are no JSON, and never reads past the object', () => {
    fc.assert(
      fc.property(objectText(2), fc.nat(), fc.uint8Array({ maxLength: 4 }), (text, where, noise) => {
        const bytes = Buffer.from(text);
        const at = where % (bytes.length + 1);
        pruneJson(Buffer.concat([bytes.subarray(0, at), noise, bytes.subarray(at)]), SHAPE);
        expect(plain(pruneJson(Buffer.from(`${text}{"usage":9}`), SHAPE))).toEqual(
          plain(pruneJson(bytes, SHAPE)),
        );
      }),
    );
  });

  it('leaves out a value that is too large, also if a small one came before', () => {
    const large = JSON.stringify({ x: 'y'.repeat(70_000) });
    expect(pruneJson(Buffer.from(`{"usage":1,"usage":${large},"id":"a"}`), SHAPE)).toEqual({ id: 'a' });
    const pruner = new JsonPruner(SHAPE);
    for (const byte of Buffer.from(`{"usage":${large},"id":"a"}`)) pruner.push(Buffer.from([byte]));
    expect(pruner.result).toEqual({ id: 'a' });
  });

  it('reads what came before the bytes ended', () => {
    expect(pruneJson(Buffer.from('{"id":"a","usage":{"n":1},"output":[{"type":"ca'), SHAPE)).toEqual({
      id: 'a',
      usage: { n: 1 },
    });
  });

  it.each([
    ['braces', '{},'],
    ['nesting', '['],
    ['strings of 300 bytes', `"${'x'.repeat(300)}",`],
    ['escapes', '\\n'],
  ])('passes over %s in linear time, and over 18 MB of them in flat memory', async (_what, part) => {
    const prune = (bytes: Buffer) => {
      const pruner = new JsonPruner(SHAPE);
      // Of chunks as large as a socket's, there would be too few for what is kept of each to show.
      for (let at = 0; at < bytes.length; at += 1_024) pruner.push(bytes.subarray(at, at + 1_024));
      pruneJson(bytes, SHAPE);
    };
    const bytesOf = (length: number) => {
      const filler = Buffer.alloc(length, part);
      return Buffer.concat([Buffer.from(part === '\\n' ? '{"padding":["' : '{"padding":['), filler]);
    };
    const large = bytesOf(18_000_000);
    const heapBefore = process.memoryUsage().heapUsed;
    prune(large);
    expect(process.memoryUsage().heapUsed - heapBefore).toBeLessThan(16 * 1024 * 1024);
    await expectLinear(2_000_000, (length) => {
      const bytes = bytesOf(length);
      return () => prune(bytes);
    });
  });
});

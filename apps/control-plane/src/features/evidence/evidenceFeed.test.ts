import { emptyStratum, type Stratum } from '@weighbridge/domain';
import { describe, expect, it } from 'vitest';
import { EvidenceFeed, type EvidenceMessage } from './evidenceFeed.ts';

/** A table of workload types that a test fills. */
function table() {
  const types = new Map<string, { version: bigint; models: string[] }>();
  let reads = 0;
  let nowMs = 0;
  const feed = new EvidenceFeed({
    readTypes: async () => [...types].map(([workloadType, { version }]) => ({ workloadType, version })),
    readStrata: async (wanted) => {
      reads += 1;
      return wanted.flatMap((type): Stratum[] =>
        (types.get(type)?.models ?? []).map((model) => ({ ...emptyStratum(type, model, 0), requests: 1 })),
      );
    },
    nowMs: () => nowMs,
  });
  return {
    feed,
    set: (type: string, models = ['mock/a']) =>
      types.set(type, { version: (types.get(type)?.version ?? 0n) + 1n, models }),
    remove: (type: string) => types.delete(type),
    pass: (ms: number) => {
      nowMs += ms;
    },
    reads: () => reads,
  };
}

const typesOf = (messages: readonly EvidenceMessage[]) =>
  messages.flatMap(({ types }) => (types ?? []).map(({ workloadType }) => workloadType));

describe('the evidence feed', () => {
  it('sends everything first, then only what changed', async () => {
    const { feed, set } = table();
    set('a');
    set('b', ['mock/a', 'mock/b']);
    await feed.advance();
    const first = feed.changesAfter(undefined);
    expect(first).toMatchObject([{ isFirst: true, types: [{ workloadType: 'a' }, { workloadType: 'b' }] }]);
    const sentTurn = feed.turn;
    set('b');
    await feed.advance();
    expect(feed.changesAfter(sentTurn)).toMatchObject([{ isFirst: false, types: [{ workloadType: 'b' }] }]);
    expect(feed.changesAfter(feed.turn)).toEqual([]);
  });

  it('reads no strata if nothing changed', async () => {
    const { feed, set, reads } = table();
    set('a');
    await feed.advance();
    await feed.advance();
    expect(reads()).toBe(1);
    expect(feed.turn).toBe(1);
  });

  it('sends the age of the evidence, and removed types', async () => {
    const { feed, set, remove, pass } = table();
    set('a');
    set('b');
    await feed.advance();
    const sentTurn = feed.turn;
    pass(1_500);
    expect(feed.changesAfter(undefined)).toMatchObject([{ types: [{ ageMs: 1_500n }, { ageMs: 1_500n }] }]);
    remove('a');
    await feed.advance();
    expect(feed.changesAfter(sentTurn)).toMatchObject([{ isFirst: false, types: [], forgottenTypes: ['a'] }]);
    expect(typesOf(feed.changesAfter(undefined))).toEqual(['b']);
    // The type is back: a proxy that was sent nothing meanwhile gets only that.
    set('a');
    await feed.advance();
    expect(feed.changesAfter(sentTurn)).toMatchObject([
      { types: [{ workloadType: 'a' }], forgottenTypes: [] },
    ]);
  });

  it('reads a bounded number of types per turn, and each type in turn', async () => {
    const { feed, set } = table();
    const names = Array.from({ length: 500 }, (_, n) => `type ${n}`);
    for (const name of names) set(name);
    await feed.advance();
    expect(typesOf(feed.changesAfter(undefined))).toHaveLength(200);
    for (const name of names.slice(0, 200)) set(name);
    await feed.advance();
    await feed.advance();
    expect(new Set(typesOf(feed.changesAfter(undefined)))).toEqual(new Set(names));
  });

  it('bounds the size of messages', async () => {
    const { feed, set } = table();
    const models = Array.from({ length: 150 }, (_, n) => `mock/${n}`);
    for (let n = 0; n < 100; n++) set(`type ${n}`, models);
    await feed.advance();
    const messages = feed.changesAfter(undefined);
    expect(messages.map(({ isFirst }) => isFirst ?? false)).toEqual([
      true,
      ...messages.slice(1).map(() => false),
    ]);
    for (const { types = [] } of messages) {
      expect(types.reduce((sum, { models: of = [] }) => sum + of.length, 0)).toBeLessThanOrEqual(2_000);
    }
    expect(typesOf(messages)).toHaveLength(100);
  });
});

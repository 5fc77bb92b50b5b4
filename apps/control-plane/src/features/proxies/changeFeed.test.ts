import { createLogger } from '@weighbridge/runtime';
import { describe, expect, it } from 'vitest';
import type { Position, RecordedChange } from '../changes/changes.service.ts';
import { createChangeFeed, MAX_CHANGES } from './changeFeed.ts';

/** A database of which the test says what is in it. */
function world() {
  const state = {
    position: { databaseSystemId: 'db', timeline: 1, revision: 10n } as Position,
    changes: [] as RecordedChange[],
    snapshots: 0,
    commit(kind: string, resource_id: string, reach = 'own') {
      const revision = state.position.revision + 1n;
      state.changes.push({ revision, kind, resource_id, reach });
      state.position = { ...state.position, revision };
    },
  };
  const logger = createLogger('test');
  logger.level = 'silent';
  const feed = createChangeFeed({
    logger,
    readPosition: async () => state.position,
    readChanges: async (after, limit) =>
      state.changes.filter(({ revision }) => revision > after).slice(0, limit),
    readSnapshot: async () => {
      state.snapshots++;
      return { revision: state.position.revision, models: [{ id: `m${state.snapshots}` }] };
    },
  });
  return { state, feed };
}

describe('the feed of changes', () => {
  it('says what came after any revision that it has seen, each thing once', async () => {
    const { state, feed } = world();
    await feed.advance();
    state.commit('key', 'key_1');
    state.commit('policy', 'pol_1');
    state.commit('key', 'key_1');
    expect(await feed.advance()).toBe(true);
    expect(await feed.advance()).toBe(false);
    expect(feed.deltaAfter(10n)).toMatchObject({
      fromRevision: 10n,
      toRevision: 13n,
      keyIds: ['key_1'],
      policyIds: ['pol_1'],
      allKeys: false,
    });
    expect(feed.deltaAfter(12n)).toMatchObject({ keyIds: ['key_1'], policyIds: [] });
    expect(feed.deltaAfter(13n)).toMatchObject({ fromRevision: 13n, toRevision: 13n, keyIds: [] });
    expect([feed.deltaAfter(9n), feed.deltaAfter(14n)]).toEqual([undefined, undefined]);
  });

  it('brings models and connectors whole with a change of any of them, and not with one of keys', async () => {
    const { state, feed } = world();
    await feed.advance();
    state.commit('key', 'key_1');
    await feed.advance();
    expect([feed.deltaAfter(10n)?.tables, state.snapshots]).toEqual([undefined, 1]);
    state.commit('connector_price', 'con_1');
    await feed.advance();
    expect(feed.deltaAfter(10n)?.tables?.models).toMatchObject([{ id: 'm2' }]);
    expect((await feed.snapshot()).models).toMatchObject([{ id: 'm2' }]);
  });

  it('lets all keys be forgotten where a default changed', async () => {
    const { state, feed } = world();
    await feed.advance();
    state.commit('policy', 'pol_1', 'all');
    await feed.advance();
    expect(feed.deltaAfter(10n)?.allKeys).toBe(true);
  });

  it.each<[string, (state: ReturnType<typeof world>['state']) => void]>([
    [
      'a failover',
      (state) => {
        state.position = { ...state.position, timeline: 2 };
      },
    ],
    [
      'a restore',
      (state) => {
        state.position = { ...state.position, revision: 5n };
      },
    ],
    [
      'another database',
      (state) => {
        state.position = { ...state.position, databaseSystemId: 'other' };
      },
    ],
    [
      'changes that were compacted',
      (state) => {
        state.position = { ...state.position, revision: 99n };
      },
    ],
  ])('starts anew after %s: nobody can go on from before', async (_what, happen) => {
    const { state, feed } = world();
    await feed.advance();
    state.commit('key', 'key_1');
    await feed.advance();
    happen(state);
    expect(await feed.advance()).toBe(true);
    expect(feed.deltaAfter(10n)).toBeUndefined();
    expect(feed.position).toEqual(state.position);
  });

  it('keeps no more than so many changes: who missed more starts anew', async () => {
    const { state, feed } = world();
    await feed.advance();
    for (let change = 0; change <= MAX_CHANGES; change++) state.commit('key', `key_${change}`);
    while (await feed.advance());
    expect(feed.deltaAfter(10n)).toBeUndefined();
    expect(feed.deltaAfter(11n)?.keyIds).toHaveLength(MAX_CHANGES);
  });
});

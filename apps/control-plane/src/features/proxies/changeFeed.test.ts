import { PositionSchema, SnapshotSchema } from '@weighbridge/contracts';
import { createLogger } from '@weighbridge/runtime';
import type { RecordedChange } from '@weighbridge/state';
import { describe, expect, it } from 'vitest';
import type { Position } from '../changes/changes.service.ts';
import { ChangeFeed, MAX_CHANGES } from './changeFeed.ts';

/** A feed on a database that the test fills. */
function feedOnDatabase() {
  const state = {
    position: { databaseSystemId: 'db', timeline: 1, revision: 10n } as Position,
    changes: [] as RecordedChange[],
    snapshots: 0,
    policies: new Map<string, { id: string; settings: { allowedModels: string[] } }>(),
    /** The policies that were read at once. */
    policyReads: [] as (readonly string[])[],
    /** Beside the models. */
    resources: {},
    commit(kind: string, resource_id: string, reach = 'own') {
      const revision = state.position.revision + 1n;
      state.changes.push({ revision, kind, resource_id, reach });
      state.position = { ...state.position, revision };
    },
  };
  const logger = createLogger('test');
  logger.level = 'silent';
  const feed = new ChangeFeed({
    logger,
    readPosition: async () => state.position,
    readChanges: async (after, limit) =>
      state.changes.filter(({ revision }) => revision > after).slice(0, limit),
    readPolicies: async (ids) => {
      state.policyReads.push(ids);
      return ids.flatMap((id) => state.policies.get(id) ?? []);
    },
    readSnapshot: async () => {
      state.snapshots++;
      return {
        revision: state.position.revision,
        models: [{ id: `m${state.snapshots}` }],
        ...state.resources,
      };
    },
  });
  return { state, feed };
}

describe('the change feed', () => {
  it('gives the changes after any revision that it has read, each resource once', async () => {
    const { state, feed } = feedOnDatabase();
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

  it('sends the settings of changed policies, as they are now, and none of one that is deleted', async () => {
    const { state, feed } = feedOnDatabase();
    await feed.advance();
    const set = (id: string, allowedModels: string[]) => {
      state.policies.set(id, { id, settings: { allowedModels } });
      state.commit('policy', id);
    };
    set('pol_1', ['a']);
    set('pol_2', ['a']);
    await feed.advance();
    set('pol_1', ['b']);
    state.policies.delete('pol_2');
    state.commit('policy', 'pol_2');
    await feed.advance();
    expect(feed.deltaAfter(10n)).toMatchObject({
      policyIds: ['pol_1', 'pol_2'],
      policies: [{ id: 'pol_1', settings: { allowedModels: ['b'] } }],
    });
  });

  it('bounds the settings that it reads and sends: of further policies only the ids', async () => {
    const { state, feed } = feedOnDatabase();
    await feed.advance();
    for (let n = 0; n < 300; n++) {
      state.policies.set(`pol_${n}`, { id: `pol_${n}`, settings: { allowedModels: ['x'.repeat(20_000)] } });
      state.commit('policy', `pol_${n}`);
    }
    await feed.advance();
    const delta = feed.deltaAfter(10n);
    expect(state.policyReads.map((ids) => ids.length)).toEqual([100]);
    expect(delta?.policyIds.length).toBe(300);
    // Of 20 kB each: the latest, up to 1 MiB.
    expect(delta?.policies.map(({ id }) => id)).toEqual(
      Array.from({ length: 52 }, (_, n) => `pol_${248 + n}`),
    );
  });

  it('sends all models and connectors after a change of one of them, and none after a change of keys', async () => {
    const { state, feed } = feedOnDatabase();
    await feed.advance();
    state.commit('key', 'key_1');
    await feed.advance();
    expect([feed.deltaAfter(10n)?.tables, state.snapshots]).toEqual([undefined, 1]);
    state.commit('connector_price', 'con_1');
    await feed.advance();
    expect(feed.deltaAfter(10n)?.tables?.models).toMatchObject([{ id: 'm2' }]);
    expect((await feed.snapshot()).models).toMatchObject([{ id: 'm2' }]);
  });

  it('sends everything that it reads for proxies, with its position', async () => {
    const { state, feed } = feedOnDatabase();
    const resources = SnapshotSchema.fields.filter(({ message }) => message && message !== PositionSchema);
    state.resources = Object.fromEntries(resources.map(({ localName }) => [localName, [{ id: 'a' }]]));
    await feed.advance();
    const { $typeName, revision, position, ...sent } = await feed.snapshot();
    expect(revision).toBe(10n);
    expect(position).toMatchObject(state.position);
    expect(Object.keys(sent).sort()).toEqual(resources.map(({ localName }) => localName).sort());
    for (const list of Object.values(sent)) expect(list).toMatchObject([{ id: 'a' }]);
  });

  it('drops all keys after a change of a default policy', async () => {
    const { state, feed } = feedOnDatabase();
    await feed.advance();
    state.commit('policy', 'pol_1', 'all');
    await feed.advance();
    expect(feed.deltaAfter(10n)?.allKeys).toBe(true);
  });

  it.each<[string, (state: ReturnType<typeof feedOnDatabase>['state']) => void]>([
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
  ])('resets after %s: no delta starts from an earlier revision', async (_what, happen) => {
    const { state, feed } = feedOnDatabase();
    await feed.advance();
    state.commit('key', 'key_1');
    await feed.advance();
    happen(state);
    expect(await feed.advance()).toBe(true);
    expect(feed.deltaAfter(10n)).toBeUndefined();
    expect(feed.position).toEqual(state.position);
  });

  it('keeps at most MAX_CHANGES changes: a proxy that missed more gets a snapshot', async () => {
    const { state, feed } = feedOnDatabase();
    await feed.advance();
    for (let change = 0; change <= MAX_CHANGES; change++) state.commit('key', `key_${change}`);
    while (await feed.advance());
    expect(feed.deltaAfter(10n)).toBeUndefined();
    expect(feed.deltaAfter(11n)?.keyIds).toHaveLength(MAX_CHANGES);
  });
});

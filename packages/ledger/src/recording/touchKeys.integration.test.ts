import { useDatabase } from '@weighbridge/testing';
import { beforeEach, describe, expect, it } from 'vitest';
import { ledgerEvent } from '../../test/events.ts';
import { touchKeys } from './touchKeys.ts';

const START = new Date('2026-11-10T12:00:00.000Z');
const after = (seconds: number) => new Date(START.getTime() + seconds * 1_000);
const NOW = after(1_000);

const database = useDatabase();
beforeEach(async () => {
  await database.db.deleteFrom('keys').execute();
  await database.db.deleteFrom('principals').execute();
  await database.db.insertInto('principals').values({ id: 'ada', created_at: START }).execute();
  for (const id of ['key_1', 'key_2']) {
    await database.db
      .insertInto('keys')
      .values({
        id,
        name: id,
        kind: 'service',
        principal_id: 'ada',
        scopes: [],
        counter_key_id: id,
        key_hint: '',
        created_at: START,
        updated_at: START,
      })
      .execute();
  }
});

let n = 0;
const used = (key: string, seconds: number) => ledgerEvent(n++, { key, admittedAt: after(seconds) });
const lastUsed = async (id: string) =>
  (await database.db.selectFrom('keys').select('last_used_at').where('id', '=', id).executeTakeFirstOrThrow())
    .last_used_at;

describe('the last use of a key', () => {
  it("is the newest admission of the key's own events", async () => {
    await touchKeys(
      database.db,
      [used('key_1', 5), used('key_1', 7), used('key_1', 6), used('key_gone', 9)],
      NOW,
    );
    expect(await lastUsed('key_1')).toEqual(after(7));
    expect(await lastUsed('key_2')).toBeNull();
    await touchKeys(database.db, [], NOW);
  });

  it('is written at most every half minute, lags no further, and never goes back', async () => {
    const written = new Set<number>();
    for (let at = 0; at <= 300; at += 3) {
      await touchKeys(database.db, [used('key_1', at)], NOW);
      const last = await lastUsed('key_1');
      expect(after(at).getTime() - Number(last)).toBeLessThanOrEqual(30_000);
      written.add(Number(last));
    }
    expect(written.size).toBeLessThanOrEqual(11);
    const last = await lastUsed('key_1');
    await touchKeys(database.db, [used('key_1', 1)], NOW);
    expect(await lastUsed('key_1')).toEqual(last);
  });

  it("is never in the future, whatever a proxy's clock says", async () => {
    await touchKeys(database.db, [used('key_1', 90_000)], NOW);
    expect(await lastUsed('key_1')).toEqual(NOW);
  });

  it('is not a change of the key: neither updated_at nor the revision changes', async () => {
    const revision = () => database.db.selectFrom('revision').select('revision').executeTakeFirstOrThrow();
    const before = await revision();
    await touchKeys(database.db, [used('key_1', 5)], NOW);
    expect(await revision()).toEqual(before);
    const key = await database.db
      .selectFrom('keys')
      .selectAll()
      .where('id', '=', 'key_1')
      .executeTakeFirstOrThrow();
    expect(key.updated_at).toEqual(START);
  });

  it('is right when shards update the same keys concurrently, in any order', async () => {
    const shard = (keys: string[], from: number) =>
      Promise.all(
        Array.from({ length: 8 }, (_, i) =>
          touchKeys(
            database.db,
            keys.map((key) => used(key, from + i * 40)),
            NOW,
          ),
        ),
      );
    await Promise.all([shard(['key_1', 'key_2'], 0), shard(['key_2', 'key_1'], 20)]);
    for (const id of ['key_1', 'key_2']) {
      expect(after(300).getTime() - Number(await lastUsed(id))).toBeLessThanOrEqual(30_000);
      expect(Number(await lastUsed(id))).toBeLessThanOrEqual(Number(after(300)));
    }
  });
});

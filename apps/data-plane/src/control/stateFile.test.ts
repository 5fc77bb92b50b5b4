import { randomBytes } from 'node:crypto';
import { mkdtemp, rename, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { create } from '@bufbuild/protobuf';
import { type Key, KeySchema, PolicySchema, SnapshotSchema } from '@weighbridge/contracts';
import { tokenSha256 } from '@weighbridge/domain';
import { createLogger } from '@weighbridge/runtime';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { ControlState } from './controlState.ts';
import { unpackedKey } from './keyEntry.ts';
import { createKeyStore, tokenIdOf } from './keyStore.ts';
import { StateFile } from './stateFile.ts';

const SEAL = randomBytes(32);
const SNAPSHOT = create(SnapshotSchema, { revision: 7n, position: { revision: 7n } });
/** More than are written in one piece. */
const KEYS = 2_500;
const logger = createLogger('test');
logger.level = 'silent';

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'state-'));
});
afterEach(() => rm(folder, { recursive: true }));

function world(wallMs: number) {
  const store = createKeyStore(100_000_000);
  const state = new ControlState({ keys: store, maxStalenessMs: 60_000 });
  const clock = { wallMs: () => wallMs, monotonicMs: () => 1_000 };
  const stateFile = new StateFile({ file: join(folder, 'state'), key: SEAL, state, store, logger, clock });
  return { store, state, stateFile };
}

function keyNumber(n: number): Key {
  const bucket = {
    policyId: 'pol_☃',
    counterVersion: n,
    subject: `principal:é${n}`,
    windowStartMs: BigInt(n),
  };
  return create(KeySchema, {
    id: `key_${n}`,
    principalId: `é${n}`,
    disabled: n % 2 === 0,
    expiresAtMs: 2n ** 52n + BigInt(n),
    policies: [{ bucket, limitNanoUsd: 2n ** 60n, allowedModels: ['gpt-*'] }],
  });
}

function known(): ReturnType<typeof world> {
  const written = world(10_000);
  written.state.applySnapshot(SNAPSHOT, [], 1_000);
  const lookUp = written.store.beginLookUp();
  for (let n = 0; n < KEYS; n++) {
    const source = { revision: BigInt(n), readAtMs: 1_000, maxAgeMs: n };
    lookUp.store(tokenIdOf(tokenSha256(`token ${n}`)), keyNumber(n), source);
  }
  lookUp.end();
  return written;
}

it('restores every key of an earlier process, at its age', async () => {
  const { stateFile } = known();
  await stateFile.save();
  const later = world(13_000);
  expect(await later.stateFile.restore()).toBe(true);
  expect(later.store.size).toBe(KEYS);
  expect(later.state.position?.revision).toBe(7n);
  expect(later.state.lastContactMs).toBe(1_000 - 3_000);
  for (let n = 0; n < KEYS; n++) {
    const entry = later.store.get(tokenIdOf(tokenSha256(`token ${n}`)));
    if (!entry) throw new Error(`key ${n} is missing`);
    expect(unpackedKey(entry)).toEqual(keyNumber(n));
    expect(entry).toMatchObject({ revision: BigInt(n), readAtMs: 1_000 - 3_000, maxAgeMs: n });
  }
});

it('yields between pieces, and saves the keys that it had at its start', async () => {
  const { stateFile, store } = known();
  let turns = 0;
  const counting = setInterval(() => turns++, 0);
  const saving = stateFile.save();
  const lookUp = store.beginLookUp();
  const source = { revision: 1n, readAtMs: 0, maxAgeMs: 1 };
  lookUp.store(tokenIdOf(tokenSha256('added during the save')), keyNumber(1), source);
  lookUp.end();
  await saving;
  clearInterval(counting);
  expect(turns).toBeGreaterThan(0);
  const later = world(10_000);
  await later.stateFile.restore();
  expect(later.store.size).toBe(KEYS);
});

it('leaves out what was revoked during the save', async () => {
  const { stateFile, store } = known();
  const saving = stateFile.save();
  store.forget(tokenIdOf(tokenSha256('token 0')));
  await saving;
  const later = world(10_000);
  await later.stateFile.restore();
  expect(later.store.size).toBe(KEYS - 1);
});

it("writes a key with its policies' newest settings, so that any release starts from it, and no outdated key", async () => {
  const { stateFile, store } = known();
  const policies = [
    create(PolicySchema, { id: 'pol_☃', settings: { allowedModels: ['o3'], structure: 5n } }),
  ];
  const change = {
    policyIds: new Set(['pol_☃']),
    keyIds: new Set(['key_2499']),
    principalIds: new Set<string>(),
  };
  const lookUp = store.beginLookUp();
  const [read] = keyNumber(0).policies;
  if (!read) throw new Error('there is a policy');
  const key = create(KeySchema, { id: 'key_0', policies: [{ ...read, structure: 5n }] });
  lookUp.store(tokenIdOf(tokenSha256('structured')), key, { revision: 2n, readAtMs: 1_000, maxAgeMs: 1 });
  lookUp.end();
  store.invalidate({ ...change, revision: 5_000n, allKeys: false, policies });
  await stateFile.save();
  const later = world(10_000);
  await later.stateFile.restore();
  // The others have no structure, so they are outdated by the change.
  expect(later.store.size).toBe(1);
  const entry = later.store.get(tokenIdOf(tokenSha256('structured')));
  if (!entry) throw new Error('the key is missing');
  expect(entry.revision).toBe(5_000n);
  expect(unpackedKey(entry).policies).toEqual([
    { ...read, structure: 5n, allowedModels: ['o3'], limitNanoUsd: undefined },
  ]);
});

it('keeps the last state where a save ends halfway, and takes no unfinished one', async () => {
  const { stateFile, store } = known();
  await stateFile.save();
  const peek = store.peek.bind(store);
  let read = 0;
  store.peek = (tokenId) => {
    if (++read > KEYS / 2) throw new Error('the process ends');
    return peek(tokenId);
  };
  await expect(stateFile.save()).rejects.toThrow('the process ends');
  const kept = world(10_000);
  expect(await kept.stateFile.restore()).toBe(true);
  expect(kept.store.size).toBe(KEYS);

  const file = join(folder, 'state');
  expect((await stat(`${file}.new`)).size).toBeGreaterThan(100_000);
  await rename(`${file}.new`, file);
  expect(await world(10_000).stateFile.restore()).toBe(false);
});

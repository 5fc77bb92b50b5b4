import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { create } from '@bufbuild/protobuf';
import { type Key, KeySchema, SnapshotSchema } from '@weighbridge/contracts';
import { tokenSha256 } from '@weighbridge/domain';
import { createLogger } from '@weighbridge/runtime';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { ControlState } from './controlState.ts';
import { keyEntry, keyMessage } from './keyEntry.ts';
import { createKeyStore, tokenIdOf } from './keyStore.ts';
import { StateFile } from './stateFile.ts';

const SEAL = randomBytes(32);
const SNAPSHOT = create(SnapshotSchema, { revision: 7n, position: { revision: 7n } });
/** More than are packed in one turn. */
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
  written.state.applySnapshot(SNAPSHOT, 1_000);
  const lookUp = written.store.beginLookUp();
  for (let n = 0; n < KEYS; n++) {
    const source = { revision: BigInt(n), readAtMs: 1_000, maxAgeMs: n };
    lookUp.store(tokenIdOf(tokenSha256(`token ${n}`)), keyEntry(keyNumber(n), source));
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
    expect(keyMessage(entry)).toEqual(keyNumber(n));
    expect(entry).toMatchObject({ revision: BigInt(n), readAtMs: 1_000 - 3_000, maxAgeMs: n });
  }
});

it('yields while it packs many keys, and saves the state as of its start', async () => {
  const { stateFile, store } = known();
  let turns = 0;
  const counting = setInterval(() => turns++, 0);
  const saving = stateFile.save();
  const lookUp = store.beginLookUp();
  const source = { revision: 1n, readAtMs: 0, maxAgeMs: 1 };
  lookUp.store(tokenIdOf(tokenSha256('added during the save')), keyEntry(keyNumber(1), source));
  lookUp.end();
  await saving;
  clearInterval(counting);
  expect(turns).toBeGreaterThan(0);
  const later = world(10_000);
  await later.stateFile.restore();
  expect(later.store.size).toBe(KEYS);
});

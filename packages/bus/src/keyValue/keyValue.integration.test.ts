import { randomUUID } from 'node:crypto';
import { appendFile, copyFile, mkdtemp, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { eventually, startTcpRelay, type TcpRelay, useNats } from '@weighbridge/testing';
import { afterAll, afterEach, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { withManager } from '../../test/withManager.ts';
import { createInProcessBucket, openFileBucket } from './inProcess.ts';
import { type JetStreamBucketOptions, openJetStreamBucket } from './jetStream.ts';
import type { KeyValueBucket, KeyValueSettings } from './keyValue.ts';

const nats = useNats();
const opened: KeyValueBucket[] = [];
afterEach(async () => {
  for (const bucket of opened.splice(0)) await bucket.close();
});

const SETTINGS = { ttlMs: 60_000, maxBytes: 1024 * 1024, maxValueBytes: 64 * 1024, replicas: 1 };
/** Long enough for a slow machine. */
const OPTIONS = { clientName: 'test', setBy: 'THE_SETTINGS', timeoutMs: 20_000, onError: () => {} };
const anyName = () => `TEST-${randomUUID()}`;

async function openJetStream(
  settings: Partial<KeyValueSettings> = {},
  options: Partial<JetStreamBucketOptions> = {},
): Promise<KeyValueBucket> {
  const bucket = await openJetStreamBucket(
    { ...OPTIONS, url: nats.url, ...options },
    { name: anyName(), ...SETTINGS, ...settings },
  );
  opened.push(bucket);
  return bucket;
}

async function openFile(
  path: string,
  settings: Partial<KeyValueSettings> = {},
  onError: (error: unknown, what: string) => void = () => {},
): Promise<KeyValueBucket> {
  const bucket = await openFileBucket({ name: anyName(), ...SETTINGS, ...settings }, { path, onError });
  opened.push(bucket);
  return bucket;
}

async function tempFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'bucket-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

/** Opens the same bucket for N processes. */
type OpenFor = (processes: number, settings?: Partial<KeyValueSettings>) => Promise<KeyValueBucket[]>;

const implementations: Record<string, OpenFor> = {
  JetStream: async (processes, settings) => {
    const name = anyName();
    return Promise.all(Array.from({ length: processes }, () => openJetStream({ name, ...settings })));
  },
  'in a file': async (processes, settings) => {
    const bucket = await openFile(join(await tempFolder(), 'bucket'), settings);
    return new Array(processes).fill(bucket);
  },
  'in-process': async (processes, settings) =>
    new Array(processes).fill(createInProcessBucket({ name: anyName(), ...SETTINGS, ...settings })),
};

const bytes = (text: string) => new TextEncoder().encode(text);
const text = (value: Uint8Array | undefined) => value && new TextDecoder().decode(value);
const revision = (written: number | undefined) => written ?? Number.NaN;

describe.each(Object.entries(implementations))('a bucket, %s', (_name, openFor) => {
  const open = async (settings?: Partial<KeyValueSettings>): Promise<KeyValueBucket> => {
    const [bucket] = await openFor(1, settings);
    if (!bucket) throw new Error('no bucket');
    return bucket;
  };
  const read = async (bucket: KeyValueBucket, key: string) => text((await bucket.get(key))?.value);

  it('returns the latest value', async () => {
    const bucket = await open();
    expect(await bucket.get('a')).toBeUndefined();
    await bucket.put('a', bytes('one'));
    await bucket.put('a.b=C_-9', bytes('other'));
    await bucket.put('a', bytes('two'));
    expect([await read(bucket, 'a'), await read(bucket, 'a.b=C_-9')]).toEqual(['two', 'other']);
    await bucket.put('empty', new Uint8Array());
    expect(await read(bucket, 'empty')).toBe('');
  });

  it("creates a key once when several processes try, and all see the winner's value", async () => {
    const buckets = await openFor(4);
    for (let round = 0; round < 20; round++) {
      const created = await Promise.all(
        buckets.map((bucket, at) => bucket.create(`k${round}`, bytes(`by ${at}`))),
      );
      const winner = created.findIndex((one) => one !== undefined);
      expect(created.filter((one) => one !== undefined)).toHaveLength(1);
      const seen = await Promise.all(buckets.map((bucket) => bucket.get(`k${round}`)));
      for (const entry of seen) {
        expect([text(entry?.value), entry?.revision]).toEqual([`by ${winner}`, created[winner]]);
      }
    }
  });

  it('updates a key only at its current revision', async () => {
    const buckets = await openFor(4);
    const [bucket] = buckets as [KeyValueBucket];
    const first = revision(await bucket.create('k', bytes('0')));
    const updated = await Promise.all(buckets.map((one, at) => one.update('k', bytes(`by ${at}`), first)));
    expect(updated.filter((one) => one !== undefined)).toHaveLength(1);
    const second = revision(updated.find((one) => one !== undefined));
    expect(second).toBeGreaterThan(first);
    expect(await bucket.update('k', bytes('stale'), first)).toBeUndefined();
    expect(await bucket.get('k')).toMatchObject({ revision: second });
    expect(await bucket.update('never', bytes('x'), first)).toBeUndefined();
    expect(await bucket.get('never')).toBeUndefined();
  });

  it('deletes a key, which can then be created again', async () => {
    const bucket = await open();
    const first = revision(await bucket.create('k', bytes('one')));
    await bucket.delete('k');
    await bucket.delete('never');
    expect([await bucket.get('k'), await bucket.update('k', bytes('stale'), first)]).toEqual([
      undefined,
      undefined,
    ]);
    expect(await bucket.create('k', bytes('two'))).toBeGreaterThan(first);
    expect(await read(bucket, 'k')).toBe('two');
  });

  it('expires a value after its time to live', async () => {
    const bucket = await open({ ttlMs: 300 });
    const first = revision(await bucket.create('k', bytes('one')));
    await eventually(async () => expect(await bucket.get('k')).toBeUndefined());
    expect(await bucket.update('k', bytes('stale'), first)).toBeUndefined();
    expect(await bucket.create('k', bytes('two'))).toBeGreaterThan(first);
  });

  it('drops the oldest values beyond its size', async () => {
    const bucket = await open({ maxBytes: 256 * 1024 });
    await bucket.put('old', bytes('written again'));
    for (let at = 0; at < 100; at++) {
      await bucket.put(`k${at}`, new Uint8Array(10_000));
      await bucket.put('old', bytes('written again'));
    }
    const stored = await Promise.all(Array.from({ length: 100 }, (_, at) => bucket.get(`k${at}`)));
    const sizes = stored.map((entry) => entry?.value.length);
    const first = sizes.findIndex((size) => size !== undefined);
    expect(first).toBeGreaterThan(70);
    expect(first).toBeLessThan(100);
    expect(sizes.slice(first).every((size) => size === 10_000)).toBe(true);
    expect(await read(bucket, 'old')).toBe('written again');
  });

  it('refuses a value that is too large, and an invalid key', async () => {
    const bucket = await open({ maxValueBytes: 1_000 });
    await bucket.put('fits', new Uint8Array(1_000));
    expect(revision(await bucket.create('too', new Uint8Array(1_000)))).toBeGreaterThan(0);
    const entry = await bucket.get('fits');
    expect(await bucket.update('fits', new Uint8Array(1_000), entry?.revision ?? 0)).toBeGreaterThan(0);
    await expect(bucket.put('k', new Uint8Array(1_001))).rejects.toThrow('a value of 1001 bytes is larger');
    for (const key of ['', '.', 'a.', '.a', 'a..b', 'a b', 'a*', '>', 'a/b', 'ä', 'x'.repeat(257)]) {
      await expect(bucket.put(key, bytes('x'))).rejects.toThrow('is not a valid key of the bucket');
      await expect(bucket.get(key)).rejects.toThrow('is not a valid key of the bucket');
    }
  });

  it('copies the value, so that later changes of the bytes do not change it', async () => {
    const bucket = await open();
    const value = bytes('one');
    await bucket.put('k', value);
    value.fill(0);
    expect(await read(bucket, 'k')).toBe('one');
  });

  it('refuses every call once closed', async () => {
    const bucket = await open();
    await bucket.put('k', bytes('x'));
    await bucket.close();
    await bucket.close();
    await expect(bucket.get('k')).rejects.toThrow('is closed');
    await expect(bucket.create('k', bytes('x'))).rejects.toThrow('is closed');
    await expect(bucket.update('k', bytes('x'), 1)).rejects.toThrow('is closed');
    await expect(bucket.put('k', bytes('x'))).rejects.toThrow('is closed');
    await expect(bucket.delete('k')).rejects.toThrow('is closed');
  });
});

describe('a bucket in a file', () => {
  /** As an ended process leaves it: nothing is closed. */
  const reopened = async (path: string, settings: Partial<KeyValueSettings> = {}) => {
    const copy = `${path}-${randomUUID()}`;
    await copyFile(path, copy);
    return await openFile(copy, settings);
  };

  it('outlives its process, whose end closes nothing', async () => {
    const path = join(await tempFolder(), 'bucket');
    const writer = await openFile(path);
    const first = revision(await writer.create('a', bytes('one')));
    const second = revision(await writer.update('a', bytes('two'), first));
    await writer.create('b', bytes('gone'));
    await writer.delete('b');
    await writer.put('empty', new Uint8Array());
    const reader = await reopened(path);
    expect(await reader.get('a')).toEqual({ value: Buffer.from('two'), revision: second });
    expect(await reader.get('b')).toBeUndefined();
    expect(text((await reader.get('empty'))?.value)).toBe('');
    expect(await reader.update('a', bytes('stale'), first)).toBeUndefined();
    expect(await reader.create('b', bytes('new'))).toBeGreaterThan(second);
  });

  it('keeps the age of its values', async () => {
    const path = join(await tempFolder(), 'bucket');
    await (await openFile(path, { ttlMs: 500 })).put('k', bytes('x'));
    expect(text((await (await reopened(path, { ttlMs: 500 })).get('k'))?.value)).toBe('x');
    await eventually(async () =>
      expect(await (await reopened(path, { ttlMs: 500 })).get('k')).toBeUndefined(),
    );
  });

  it('is read without a line that is damaged', async () => {
    const path = join(await tempFolder(), 'bucket');
    const writer = await openFile(path);
    await writer.put('a', bytes('one'));
    await writer.close();
    await appendFile(path, 'garbage\n[1]\n{}\n["b",1]\nnull\n["c",2,3');
    const reader = await openFile(path);
    expect(text((await reader.get('a'))?.value)).toBe('one');
    await reader.put('d', bytes('two'));
    expect(text((await (await reopened(path)).get('d'))?.value)).toBe('two');
  });

  it('does not grow with writes that are superseded', async () => {
    const path = join(await tempFolder(), 'bucket');
    const bucket = await openFile(path);
    await bucket.put('kept', bytes('first'));
    for (let at = 0; at < 300; at++) await bucket.put('k', new Uint8Array(20_000));
    expect((await stat(path)).size).toBeLessThan(2 * 1024 * 1024);
    expect(text((await (await reopened(path)).get('kept'))?.value)).toBe('first');
    expect((await stat(path)).mode & 0o777).toBe(0o600);
  });

  it('keeps working where its file can no longer be written, and says so', async () => {
    const folder = await tempFolder();
    const path = join(folder, 'bucket');
    const told: string[] = [];
    const bucket = await openFile(path, {}, (_error, what) => told.push(what));
    await rm(folder, { recursive: true });
    for (let at = 0; at < 300; at++) await bucket.put('k', new Uint8Array(20_000));
    expect((await bucket.get('k'))?.value).toHaveLength(20_000);
    expect(told[0]).toBe(`failed to write ${path}; a restart forgets what is not in it`);
    expect(told.length).toBeLessThan(5);
  });
});

describe('a bucket in NATS', () => {
  it('outlives the process that wrote to it', async () => {
    const name = anyName();
    const writer = await openJetStream({ name });
    await writer.put('k', bytes('stored'));
    await writer.close();
    expect(text((await (await openJetStream({ name })).get('k'))?.value)).toBe('stored');
  });

  it('that has other settings is not opened, and the error says how to fix it', async () => {
    const name = anyName();
    await openJetStream({ name });
    await expect(openJetStream({ name, ttlMs: 120_000, maxBytes: 4_096 })).rejects.toThrow(
      new RegExp(
        `The bucket ${name} .*max_age is 60000000000 and should be 120000000000; max_bytes is 1048576 and should be 4096.*set THE_SETTINGS to its values.*nats kv del ${name}`,
      ),
    );
    await withManager(nats.url, (manager) =>
      manager.streams.update(`KV_${name}`, { discard: 'new' as never }),
    );
    await expect(openJetStream({ name })).rejects.toThrow('discard is new and should be old');
  });

  it('that NATS refuses to create is an error that names the settings', async () => {
    await expect(openJetStream({ replicas: 3 })).rejects.toThrow(/refused to create .* Check THE_SETTINGS/);
  });

  it('is created again after someone deletes it; calls fail until then', async () => {
    const name = anyName();
    const bucket = await openJetStream({ name });
    for (const call of [() => bucket.get('k'), () => bucket.create('k', bytes('new'))]) {
      await withManager(nats.url, (manager) => manager.streams.delete(`KV_${name}`));
      await expect(call()).rejects.toThrow();
      await eventually(async () => expect(await bucket.get('k')).toBeUndefined());
    }
    expect(await bucket.create('k', bytes('new'))).toBeGreaterThan(0);
  });
});

describe('while NATS does not respond, a bucket', () => {
  let relay: TcpRelay;
  beforeAll(async () => {
    relay = await startTcpRelay(nats.url);
  });
  afterAll(() => relay.close());
  const SLOW = { timeoutMs: 60_000 };

  it('rejects after its time-out, soon at once, and recovers with NATS', async () => {
    const bucket = await openJetStream({}, { url: relay.url, timeoutMs: 250 });
    await eventually(() => bucket.put('k', bytes('stored')), SLOW);
    relay.stall();
    for (let at = 0; at < 3; at++) {
      await expect(bucket.get('k')).rejects.toThrow('did not respond within 250 ms');
    }
    await eventually(
      () => expect(bucket.put('k', bytes('x'))).rejects.toThrow('NATS does not respond'),
      SLOW,
    );
    relay.resume();
    await eventually(async () => expect(text((await bucket.get('k'))?.value)).toBe('stored'), SLOW);
  });

  it('rejects at once while disconnected, and recovers with the connection', async () => {
    const reported: string[] = [];
    const bucket = await openJetStream(
      {},
      { url: relay.url, onError: (_error, what) => reported.push(what) },
    );
    await bucket.put('k', bytes('stored'));
    relay.cut();
    await eventually(() => expect(reported.join()).toContain('lost the connection to NATS'), SLOW);
    await expect(bucket.get('k')).rejects.toThrow('NATS is not connected');
    relay.resume();
    await eventually(async () => expect(text((await bucket.get('k'))?.value)).toBe('stored'), SLOW);
  });
});

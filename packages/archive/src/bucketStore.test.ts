import { createHash } from 'node:crypto';
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type S3, type S3Fault, startS3 } from '@weighbridge/mock-vendor/clouds';
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import { type BucketOptions, createBucketStore } from './bucketStore.ts';
import type { ArchiveStore, StoredFile } from './store.ts';
import { ArchiveUnavailableError, DamagedFileError } from './store.ts';

const account = { accessKeyId: 'AKIATEST', secretAccessKey: 'a/secret+key' };
let s3: S3;
let root: string;
beforeAll(async () => {
  s3 = await startS3({ bucket: 'ledger', region: 'eu-central-1', accounts: [account] });
  root = await mkdtemp(join(tmpdir(), 'weighbridge-bucket-'));
});
const opened: ArchiveStore[] = [];
afterEach(async () => {
  s3.fault = () => undefined;
  s3.objects.clear();
  s3.calls.length = 0;
  for (const store of opened.splice(0)) await store.close();
});
afterAll(async () => {
  await s3.close();
  await rm(root, { recursive: true, force: true });
});

let caches = 0;
function open(changes: Partial<BucketOptions> = {}): ArchiveStore & { readonly cacheDir: string } {
  const cacheDir = join(root, `cache-${++caches}`);
  const store = createBucketStore({
    bucket: 'ledger',
    prefix: 'of/team a',
    endpoint: s3.url,
    region: 'eu-central-1',
    credentials: account,
    cacheDir,
    cacheBytes: 100_000,
    timeoutMs: 60_000,
    retryAfterMs: [],
    ...changes,
  });
  opened.push(store);
  return { ...store, cacheDir };
}

/** A file with some content, as the manifest has it, which is in the bucket then. */
async function put(store: ArchiveStore, name: string, content: string): Promise<StoredFile> {
  const path = join(root, 'file');
  await writeFile(path, content);
  await store.put(name, path);
  return { name, bytes: content.length, sha256: createHash('sha256').update(content).digest('hex') };
}

const read = async (store: ArchiveStore, file: StoredFile) => {
  const { path, release } = await store.fetch(file);
  const content = await readFile(path, 'utf8');
  release();
  return content;
};
const NAME = 'day=2026-11-01/attempts-00000.parquet';

it('stores, lists over pages, reads once and deletes what only it has, by signed calls', async () => {
  const store = open();
  const days = [1, 2, 3, 4, 5, 6, 7].map((day) => `day=2026-11-0${day}/a.parquet`);
  for (const day of days) await put(store, day, day);
  s3.objects.set('of another', Buffer.from(''));
  expect([...s3.objects.keys()]).toContain(`of/team a/${days[0]}`);
  expect(await store.list('day=')).toEqual(days);
  expect(await store.list('day=2026-11-03/')).toEqual([days[2]]);
  const file = await put(store, NAME, 'content');
  expect([await read(store, file), await read(store, file)]).toEqual(['content', 'content']);
  expect(s3.calls.filter((call) => call.startsWith(`GET of/team a/${NAME}`))).toHaveLength(1);
  await store.remove(NAME);
  await store.remove(NAME);
  await expect(read(open(), file)).rejects.toThrow(`${NAME} of the archive is missing`);
});

it('says why a bucket refuses, without what was sent', async () => {
  for (const [changes, message] of [
    [
      { credentials: { ...account, secretAccessKey: 'other' } },
      'the bucket answers 403 SignatureDoesNotMatch',
    ],
    [{ region: 'us-east-1' }, 'the bucket answers 403 SignatureDoesNotMatch'],
    [{ bucket: 'nowhere' }, 'the bucket answers 404 NoSuchBucket'],
    [{ endpoint: 'http://127.0.0.1:1' }, 'the bucket does not answer (ECONNREFUSED)'],
  ] as const) {
    const failed = put(open(changes), NAME, 'content');
    await expect(failed, message).rejects.toThrow(new ArchiveUnavailableError(message));
  }
  expect(s3.objects.size).toBe(0);
});

it('refuses an object that was changed, cut, made longer or exchanged, and reads it again only if it is another', async () => {
  const store = open();
  const file = await put(store, NAME, 'content');
  const key = `of/team a/${NAME}`;
  for (const [content, what] of [
    ['CONTENT', 'has another hash than its manifest says'],
    ['conten', 'has 6 bytes instead of 7'],
    ['content and more', 'has 16 bytes instead of 7'],
  ] as const) {
    s3.objects.set(key, Buffer.from(content));
    for (let time = 0; time < 3; time++) {
      await expect(read(store, file)).rejects.toThrow(new DamagedFileError(NAME, what));
    }
    const gets = s3.calls
      .filter((call) => call.startsWith(`GET ${key}`))
      .map((call) => call.split(' ').at(-1));
    expect(gets).toEqual(['200', '304', '304']);
    s3.calls.length = 0;
  }
  expect(await readdir(store.cacheDir)).toEqual([]);
  s3.objects.set(key, Buffer.from('content'));
  expect(await read(store, file)).toBe('content');
});

it.each<[S3Fault, string]>([
  ['slow down', 'the bucket answers 503 SlowDown'],
  ['denied', 'the bucket answers 403 AccessDenied'],
  ['cut', 'the bucket does not answer'],
  ['silent', 'the bucket does not answer'],
  ['slow', 'the bucket does not answer'],
])('stores nothing and reads nothing of a bucket that is %s', async (fault, message) => {
  const whole = open();
  const file = await put(
    whole,
    NAME,
    'content of some length, so that a byte now and then takes long'.repeat(20),
  );
  const store = open({ timeoutMs: 50 });
  s3.fault = () => fault;
  const refused = { name: 'ArchiveUnavailableError', message: expect.stringContaining(message) };
  await expect(put(store, NAME, 'x'.repeat(50_000))).rejects.toMatchObject(refused);
  await expect(read(store, file)).rejects.toMatchObject(refused);
  await expect(store.list('day=')).rejects.toMatchObject(refused);
  s3.fault = () => undefined;
  // Half an upload left the object as it was.
  expect(await read(whole, file)).toContain('content of some length');
});

it('tries a call again that may succeed then, and not one that was refused', async () => {
  let failures = 0;
  const faults: S3Fault[] = ['slow down', 'cut', 'slow down'];
  s3.fault = () => faults[failures++];
  const store = open({ retryAfterMs: [1, 1, 1] });
  const file = await put(store, NAME, 'content');
  expect(failures).toBe(4);
  expect(await read(store, file)).toBe('content');
  failures = 0;
  s3.fault = () => {
    failures++;
    return 'denied';
  };
  await expect(put(store, NAME, 'other')).rejects.toThrow('AccessDenied');
  expect(failures).toBe(1);
});

it('keeps no more than its bound on this machine, besides files in use, and loads a file once for all who want it', async () => {
  const store = open({ cacheBytes: 3_000 });
  const files = await Promise.all(
    [0, 1, 2, 3, 4, 5].map(async (n) => {
      const content = String(n).repeat(1_000);
      const path = join(root, `large-${n}`);
      await writeFile(path, content);
      await store.put(`${n}`, path);
      return { name: `${n}`, bytes: 1_000, sha256: createHash('sha256').update(content).digest('hex') };
    }),
  );
  const [first] = files;
  if (!first) throw new Error('there are files');
  const held = await store.fetch(first);
  for (const file of [...files, ...files.slice(1)]) await read(store, file);
  expect((await readdir(store.cacheDir)).length).toBeLessThanOrEqual(3);
  expect(await readFile(held.path, 'utf8')).toBe('0'.repeat(1_000));
  held.release();

  s3.calls.length = 0;
  const fresh = open();
  const both = await Promise.all([fresh.fetch(first), fresh.fetch(first), fresh.fetch(first)]);
  expect(new Set(both.map(({ path }) => path)).size).toBe(1);
  expect(s3.calls).toHaveLength(1);
});

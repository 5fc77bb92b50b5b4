import { createHash } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { pipeline } from 'node:stream/promises';
import { FileCache } from './fileCache.ts';
import { hashFile } from './hashFile.ts';
import { readText, S3Client, type S3Options, type S3Response, unreached } from './s3Client.ts';
import {
  type ArchiveStore,
  ArchiveUnavailableError,
  assertUndamaged,
  DamagedFileError,
  type StoredFile,
} from './store.ts';

export interface BucketOptions extends S3Options {
  /** Before each name, without slashes at its ends; may be empty. */
  readonly prefix: string;
  readonly cacheDir: string;
  /** How much the cache keeps. */
  readonly cacheBytes: number;
}

/** Files whose damage is remembered with the version of the object that has it. */
const MAX_REMEMBERED = 100;

/** An archive in a bucket that speaks S3. What is read is copied to this machine, and checked on the way. */
export function createBucketStore(options: BucketOptions): ArchiveStore {
  const client = new S3Client(options);
  const cache = new FileCache(options.cacheDir, options.cacheBytes);
  const damaged = new Map<string, { readonly etag: string; readonly error: DamagedFileError }>();
  const keyOf = (name: string) => (options.prefix ? `${options.prefix}/${name}` : name);

  /** Reads an object that is still the damaged one by its version alone. */
  async function download(file: StoredFile, path: string): Promise<void> {
    const known = damaged.get(file.name);
    const response = await client.call({
      method: 'GET',
      key: keyOf(file.name),
      ...(known && { headers: { 'if-none-match': known.etag } }),
      statuses: known ? [200, 304, 404] : [200, 404],
    });
    if (response.status === 304 && known) {
      await response.body.dump();
      throw known.error;
    }
    if (response.status === 404) throw await whyMissing(response, file);
    try {
      await saveChecked(response, file, path);
      damaged.delete(file.name);
    } catch (error) {
      const { etag } = response.headers;
      if (error instanceof DamagedFileError && typeof etag === 'string' && damaged.size < MAX_REMEMBERED) {
        damaged.set(file.name, { etag, error });
      }
      throw error;
    }
  }

  return {
    copies: true,
    localFolders: [options.cacheDir],
    async put(name, path) {
      const file = { path, ...(await hashFile(path)) };
      // The bucket compares the hash, and stores a whole object or none.
      await readText(await client.call({ method: 'PUT', key: keyOf(name), file, statuses: [200] }));
    },
    fetch: (file) => cache.use(file, (path) => download(file, path)),
    async list(prefix) {
      const names: string[] = [];
      const start = keyOf('');
      for (let token: string | undefined, more = true; more; more = token !== undefined) {
        const query = {
          'list-type': '2',
          prefix: keyOf(prefix),
          ...(token && { 'continuation-token': token }),
        };
        const text = await readText(await client.call({ method: 'GET', query, statuses: [200] }));
        for (const [, key = ''] of text.matchAll(/<Key>([^<]*)<\/Key>/g)) names.push(key.slice(start.length));
        [, token] = /<NextContinuationToken>([^<]+)<\/NextContinuationToken>/.exec(text) ?? [];
      }
      return names.sort();
    },
    async remove(name) {
      await readText(await client.call({ method: 'DELETE', key: keyOf(name), statuses: [200, 204, 404] }));
    },
    close: () => client.close(),
  };
}

async function whyMissing(response: S3Response, { name }: StoredFile): Promise<Error> {
  const text = await readText(response).catch(() => '');
  if (text.includes('NoSuchBucket')) return new ArchiveUnavailableError('the bucket does not exist');
  return new DamagedFileError(name, 'is missing');
}

/** Writes a response to a file, as far as it is what the manifest says. */
async function saveChecked({ headers, body }: S3Response, file: StoredFile, path: string): Promise<void> {
  const { name, bytes } = file;
  const announced = headers['content-length'];
  if (announced !== undefined && Number(announced) !== bytes) {
    await body.dump().catch(() => {});
    assertUndamaged(file, { bytes: Number(announced) });
  }
  const hash = createHash('sha256');
  let received = 0;
  const check = async function* (pieces: AsyncIterable<Buffer>) {
    for await (const piece of pieces) {
      received += piece.length;
      if (received > bytes) throw new DamagedFileError(name, `has more than ${bytes} bytes`);
      hash.update(piece);
      yield piece;
    }
  };
  try {
    await pipeline(body, check, createWriteStream(path, { mode: 0o600 }));
  } catch (error) {
    if (error instanceof DamagedFileError) throw error;
    const { code, syscall } = error as NodeJS.ErrnoException;
    if (syscall === 'write' || syscall === 'open') {
      throw new ArchiveUnavailableError(`the archive's folder for temporary files is not usable (${code})`, {
        cause: error,
      });
    }
    throw unreached(error);
  }
  assertUndamaged(file, { bytes: received, sha256: hash.digest('hex') });
}

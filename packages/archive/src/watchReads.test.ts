import { expect, it } from 'vitest';
import { type ArchiveStore, ArchiveUnavailableError, DamagedFileError } from './store.ts';
import { watchReads } from './watchReads.ts';

const file = (name: string) => ({ name, bytes: 1, sha256: '00' });

it('remembers which files could not be read, a bounded number, until they can be', async () => {
  let fault: ((name: string) => Error) | undefined;
  const store = {
    fetch: async ({ name }: { readonly name: string }) => {
      if (fault) throw fault(name);
      return { path: name, release: () => {} };
    },
  } as unknown as ArchiveStore;
  const { store: watched, faults } = watchReads(store);
  const read = (name: string) =>
    watched
      .fetch(file(name))
      .then(({ path }) => path)
      .catch(({ message }: Error) => message);
  expect([await read('a'), faults.count]).toEqual(['a', 0]);

  fault = (name) => new DamagedFileError(name, 'is missing');
  await read('a');
  await read('b');
  expect(faults.describe()).toEqual(['a of the archive is missing', 'b of the archive is missing']);
  await faults.recheck();
  expect(faults.count).toBe(2);

  // One reason for all.
  fault = () => new ArchiveUnavailableError('the bucket does not answer');
  for (let n = 0; n < 100; n++) await read(`c${n}`);
  await faults.recheck();
  expect([faults.count, faults.describe()]).toEqual([20, ['the bucket does not answer']]);

  fault = undefined;
  await faults.recheck();
  expect([faults.count, faults.describe()]).toEqual([0, []]);

  // A fault of DuckDB or of the caller is none of the file.
  fault = () => new Error('aborted');
  await read('a');
  expect(faults.count).toBe(0);
});

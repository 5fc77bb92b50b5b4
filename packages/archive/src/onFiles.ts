import { type DuckSql, duck } from './duck.ts';
import type { Prepared, Statement } from './engine.ts';
import type { ArchiveStore, LocalFile, StoredFile } from './store.ts';

/** How many files are fetched at a time. */
const FETCHES = 4;

/** A statement on the rows of files, which are fetched when its turn comes. `make` gets their relation. */
export function onFiles(
  store: ArchiveStore,
  files: readonly StoredFile[],
  make: (relation: DuckSql) => DuckSql,
): Statement {
  return async (): Promise<Prepared> => {
    const local: LocalFile[] = [];
    const release = () => {
      for (const file of local) file.release();
    };
    for (let at = 0; at < files.length; at += FETCHES) {
      const fetched = await Promise.allSettled(
        files.slice(at, at + FETCHES).map((file) => store.fetch(file)),
      );
      for (const one of fetched) if (one.status === 'fulfilled') local.push(one.value);
      const failed = fetched.find((one) => one.status === 'rejected');
      if (failed) {
        release();
        throw failed.reason;
      }
    }
    const paths = duck.join(local.map(({ path }) => path));
    return { statement: make(duck`read_parquet([${paths}], hive_partitioning = false)`), release };
  };
}

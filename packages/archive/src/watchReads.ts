import { type ArchiveStore, ArchiveUnavailableError, DamagedFileError, type StoredFile } from './store.ts';

/** Files that could not be read the last time. */
export interface ReadFaults {
  /** How many; of more than 20, 20. */
  readonly count: number;
  /** Why, a sentence for each reason: one for all files that can't be reached, one for each damaged file. */
  describe(): string[];
  /** Reads them again, so that a fault which is over is forgotten without a report that needs the file. */
  recheck(): Promise<void>;
}

interface Fault {
  readonly file: StoredFile;
  readonly message: string;
}

const MAX_FAULTS = 20;

/** A store that remembers which files it could not read. */
export function watchReads(store: ArchiveStore): {
  readonly store: ArchiveStore;
  readonly faults: ReadFaults;
} {
  const faults = new Map<string, Fault>();
  const watched: ArchiveStore = {
    ...store,
    async fetch(file) {
      try {
        const local = await store.fetch(file);
        faults.delete(file.name);
        return local;
      } catch (error) {
        const isFault = error instanceof DamagedFileError || error instanceof ArchiveUnavailableError;
        if (isFault && (faults.size < MAX_FAULTS || faults.has(file.name))) {
          faults.set(file.name, { file, message: error.message });
        }
        throw error;
      }
    },
  };
  return {
    store: watched,
    faults: {
      get count() {
        return faults.size;
      },
      describe: () => [...new Set([...faults.values()].map(({ message }) => message))],
      async recheck() {
        for (const { file } of [...faults.values()]) {
          await watched.fetch(file).then(
            ({ release }) => release(),
            () => {},
          );
        }
      },
    },
  };
}

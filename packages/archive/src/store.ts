/** A file of the archive as the manifest has it. */
export interface StoredFile {
  /** Below the archive's address, with `/` between folders. */
  readonly name: string;
  readonly bytes: number;
  /** In hex. */
  readonly sha256: string;
}

/** A copy on this machine, which stays until it is released. */
export interface LocalFile {
  readonly path: string;
  release(): void;
}

/** Where the files are: a folder, or a bucket. Names use letters, digits and `-_.=/` only. */
export interface ArchiveStore {
  /** Stores a file, whole or not at all, in place of one of that name. */
  put(name: string, path: string): Promise<void>;
  /** A local copy with the right hash. Throws `DamagedFileError` or `ArchiveUnavailableError`. */
  fetch(file: StoredFile): Promise<LocalFile>;
  /** The names that start with a prefix, in order. */
  list(prefix: string): Promise<string[]>;
  /** Does nothing if it is not there. */
  remove(name: string): Promise<void>;
  close(): Promise<void>;
  /** Whether `fetch` copies files to this machine. */
  readonly copies: boolean;
  /** The folders in which `fetch` has its copies. */
  readonly localFolders: readonly string[];
}

/** A file is not as it was written: changed, cut, or missing. */
export class DamagedFileError extends Error {
  override readonly name = 'DamagedFileError';
  readonly file: string;

  constructor(file: string, what: string) {
    super(`${file} of the archive ${what}`);
    this.file = file;
  }
}

/** The folder or bucket can't be reached, or refuses. Nothing is known of its files. */
export class ArchiveUnavailableError extends Error {
  override readonly name = 'ArchiveUnavailableError';
}

/** Throws `DamagedFileError` unless a file has the size and hash that the manifest says. Without a hash, it is not compared. */
export function assertUndamaged(
  { name, bytes, sha256 }: StoredFile,
  found: { readonly bytes: number; readonly sha256?: string },
): void {
  if (found.bytes !== bytes) {
    throw new DamagedFileError(name, `has ${found.bytes} bytes instead of ${bytes}`);
  }
  if (found.sha256 !== undefined && found.sha256 !== sha256) {
    throw new DamagedFileError(name, 'has another hash than its manifest says');
  }
}

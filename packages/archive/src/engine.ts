import type { DuckDBConnection, DuckDBInstance } from '@duckdb/node-api';
import { DuckSql, duck } from './duck.ts';
import { ArchiveUnavailableError } from './store.ts';

export type Row = Record<string, unknown>;

export interface EngineOptions {
  /** What DuckDB may use; beyond it, it uses `tempDir`, and fails if that is not enough. */
  readonly memoryBytes: number;
  readonly threads: number;
  readonly tempDir: string;
  /** The only folders that it may read and write, besides `tempDir`. */
  readonly folders: readonly string[];
  /** How long a statement may take. */
  readonly timeoutMs: number;
}

/** A statement on files, which stay until `release`. */
export interface Prepared {
  readonly statement: DuckSql;
  release(): void;
}

/** A statement, or what fetches its files: within the turn of the statement, so that few wait on this machine. */
export type Statement = DuckSql | (() => Promise<Prepared>);

/** A statement took too long, or needs more memory than it may have. */
export class StatementTooLargeError extends Error {
  override readonly name = 'StatementTooLargeError';
}

/** How many statements run at a time. Others wait, for as long as a statement may take. */
const MAX_RUNNING = 2;
const MAX_WAITING = 32;
/** Copying files may take as many times as long as a statement. */
const PREPARING = 3;
const TEMP_BYTES_PER_MEMORY = 16;

/** DuckDB in this process, with bounds. It is loaded with the first statement, so an archive that no one asks costs nothing. */
export class Engine {
  readonly #options: EngineOptions;
  #instance: Promise<DuckDBInstance> | undefined;
  #running = 0;
  readonly #waiting: (() => void)[] = [];
  #isClosed = false;

  constructor(options: EngineOptions) {
    this.#options = options;
  }

  /** Rows of a statement, at most `limit`; throws `StatementTooLargeError` if there are more. */
  async rows(statement: Statement, limit: number): Promise<Row[]> {
    const rows: Row[] = [];
    for await (const some of this.stream(statement)) {
      rows.push(...some);
      if (rows.length > limit) throw new StatementTooLargeError(`more than ${limit} rows`);
    }
    return rows;
  }

  async run(statement: DuckSql): Promise<void> {
    for await (const _ of this.stream(statement)) {
      // A statement without rows.
    }
  }

  /** The rows of a statement, some thousands at a time. */
  async *stream(given: Statement, timeoutMs = this.#options.timeoutMs): AsyncGenerator<Row[]> {
    await this.#enter();
    let connection: DuckDBConnection | undefined;
    let prepared: Prepared | undefined;
    let isLate = false;
    let timer: NodeJS.Timeout | undefined;
    try {
      prepared =
        given instanceof DuckSql ? { statement: given, release: () => {} } : await this.#prepare(given);
      connection = await (await this.#open()).connect();
      const started = connection;
      timer = setTimeout(() => {
        isLate = true;
        started.interrupt();
      }, timeoutMs);
      const result = await connection.stream(prepared.statement.text);
      for await (const rows of result.yieldRowObjectJs()) if (rows.length > 0) yield rows;
    } catch (error) {
      if (isLate) throw new StatementTooLargeError(`a statement took longer than ${timeoutMs} ms`);
      if (/^Out of Memory/i.test((error as Error).message)) {
        throw new StatementTooLargeError('a statement needs more memory than it may have');
      }
      throw error;
    } finally {
      clearTimeout(timer);
      connection?.closeSync();
      prepared?.release();
      this.#leave();
    }
  }

  /** What takes too long goes on without us, and is there for the next try. */
  async #prepare(prepare: () => Promise<Prepared>): Promise<Prepared> {
    const limitMs = PREPARING * this.#options.timeoutMs;
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_, reject) => {
      const error = new ArchiveUnavailableError(`copying the files took longer than ${limitMs} ms`);
      timer = setTimeout(() => reject(error), limitMs);
    });
    const preparing = prepare();
    try {
      return await Promise.race([preparing, late]);
    } catch (error) {
      preparing.then(
        ({ release }) => release(),
        () => {},
      );
      throw error;
    } finally {
      clearTimeout(timer);
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    const instance = this.#instance;
    this.#instance = undefined;
    (await instance?.catch(() => undefined))?.closeSync();
  }

  async #enter(): Promise<void> {
    if (this.#isClosed) throw new Error('the archive is closed');
    if (this.#running < MAX_RUNNING) {
      this.#running++;
      return;
    }
    if (this.#waiting.length >= MAX_WAITING) {
      throw new StatementTooLargeError(`${MAX_WAITING} statements are waiting already`);
    }
    await new Promise<void>((resolve, reject) => {
      const start = () => {
        clearTimeout(timer);
        resolve();
      };
      const timer = setTimeout(() => {
        this.#waiting.splice(this.#waiting.indexOf(start), 1);
        reject(new StatementTooLargeError('other statements took too long'));
      }, this.#options.timeoutMs);
      this.#waiting.push(start);
    });
  }

  /** The next one takes this one's place. */
  #leave(): void {
    const next = this.#waiting.shift();
    if (next) next();
    else this.#running--;
  }

  #open(): Promise<DuckDBInstance> {
    this.#instance ??= this.#start().catch((error: unknown) => {
      this.#instance = undefined;
      throw error;
    });
    return this.#instance;
  }

  async #start(): Promise<DuckDBInstance> {
    const { DuckDBInstance } = await import('@duckdb/node-api');
    const { memoryBytes, threads, tempDir, folders } = this.#options;
    const instance = await DuckDBInstance.create(':memory:', {
      memory_limit: `${memoryBytes}B`,
      threads: String(threads),
      temp_directory: tempDir,
      max_temp_directory_size: `${memoryBytes * TEMP_BYTES_PER_MEMORY}B`,
      autoinstall_known_extensions: 'false',
      autoload_known_extensions: 'false',
    });
    const connection = await instance.connect();
    // No statement reaches other files, or the network; nor can one change that.
    await connection.run(duck`SET allowed_directories = [${duck.join([tempDir, ...folders])}]`.text);
    await connection.run('SET enable_external_access = false');
    await connection.run('SET lock_configuration = true');
    connection.closeSync();
    return instance;
  }
}

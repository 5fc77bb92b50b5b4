import { serverAccount } from './account.ts';
import { locateBinaries } from './binaries.ts';
import { prepareCluster, SUPERUSER } from './cluster.ts';
import { LocalPostgresError, systemCode, tailOfFile } from './errors.ts';
import { openFolder } from './folder.ts';
import { stopLeftBehind } from './leftBehind.ts';
import { startServer } from './server.ts';

export interface LocalPostgresOptions {
  /**
   * Where the data is kept across restarts; made if missing. Weighbridge's alone. Root can't run Postgres: if `nobody`
   * can't reach this place, it becomes a link to `/var/lib/weighbridge/data/<uuid>`, which holds the data; deleting the
   * link then means a new, empty database, and leaves the old one where it is.
   */
  readonly dataDir: string;
  /** Created if missing. Default `weighbridge`. */
  readonly database?: string;
  /** Server settings, as in postgresql.conf; they override ours. */
  readonly settings?: Readonly<Record<string, string>>;
  /** Called once if the server ends without having been stopped, with how and the last lines of its log. */
  readonly onExit?: (detail: string) => void;
  /** How long recovery after a crash may take. Default 60 s. */
  readonly startTimeoutMs?: number;
  /** How long open transactions get to end before an immediate shutdown. Default 10 s. */
  readonly stopTimeoutMs?: number;
}

export interface LocalPostgres {
  /** `postgresql://…` of the database, for its superuser, on 127.0.0.1 and a port that changes at every start. */
  readonly url: string;
  /** True if there was no cluster yet. */
  readonly firstStart: boolean;
  /** Ends open connections and waits until the server is gone. May be called again. */
  stop(): Promise<void>;
}

/**
 * Starts a Postgres of our own on a folder, in its own session, and resolves when it accepts connections. The caller
 * makes sure, by a lock of its own, that no other living process does so on the same folder. A server that a killed
 * owner left behind is stopped first. Throws {@link LocalPostgresError}.
 */
export async function startLocalPostgres(options: LocalPostgresOptions): Promise<LocalPostgres> {
  try {
    return await start(options);
  } catch (error) {
    if (error instanceof LocalPostgresError || systemCode(error) === undefined) throw error;
    const reason = error instanceof Error ? error.message : String(error);
    throw new LocalPostgresError(`Postgres can't use the folder ${options.dataDir}: ${reason}`, {
      cause: error,
    });
  }
}

async function start(options: LocalPostgresOptions): Promise<LocalPostgres> {
  const { dataDir, database = 'weighbridge', settings = {}, onExit } = options;
  const { startTimeoutMs = 60_000, stopTimeoutMs = 10_000 } = options;

  const account = serverAccount();
  const binaries = await locateBinaries(account);
  const folder = openFolder(account, dataDir);
  await stopLeftBehind(folder.cluster, stopTimeoutMs);
  const unsafe = settings.fsync === 'off';
  const { firstStart, password } = await prepareCluster({ account, binaries, folder, database, unsafe });
  const server = await startServer({ account, binaries, folder, settings, startTimeoutMs });

  let stopping: Promise<void> | undefined;
  server.ended.then(async (how) => {
    if (stopping) return;
    onExit?.(`Postgres ended by itself (${how}); its log ${folder.log} ends:${await tailOfFile(folder.log)}`);
  });
  return {
    url: `postgresql://${SUPERUSER}:${password}@127.0.0.1:${server.port}/${database}`,
    firstStart,
    stop: () => {
      stopping ??= server.stop(stopTimeoutMs);
      return stopping;
    },
  };
}

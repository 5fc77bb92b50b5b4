import { serverAccount } from './account.ts';
import { locateBinaries } from './binaries.ts';
import { prepareCluster, SUPERUSER } from './cluster.ts';
import { LocalPostgresError, systemCode } from './errors.ts';
import { openFolder } from './folder.ts';
import { stopOrphanedServer } from './orphanedServer.ts';
import { startServer } from './server.ts';
import { supervise } from './supervise.ts';

export interface LocalPostgresOptions {
  /**
   * The folder of the data, for Weighbridge only; created if missing. Postgres can't run as root: if we are root and `nobody`
   * can't reach this folder, it becomes a link to `/var/lib/weighbridge/data/<uuid>`, which holds the data. Deleting the link
   * then means a new, empty database, and leaves the old one in place.
   */
  readonly dataDir: string;
  /** Created if missing. Default `weighbridge`. */
  readonly database?: string;
  /** Server settings, as in postgresql.conf; they override ours. */
  readonly settings?: Readonly<Record<string, string>>;
  /** Called once if the server has ended without `stop` for good, with its exit code and the last lines of its log. */
  readonly onExit?: (detail: string) => void;
  /**
   * If given, a server that ends without `stop` is started again on the same port, and this is called with the reason: up to
   * three times in ten minutes, for one that keeps ending needs a person.
   */
  readonly onRestart?: (detail: string) => void;
  /** The limit for recovery after a crash. Default: 60 s. */
  readonly startTimeoutMs?: number;
  /** How long `stop` waits for the server before an immediate shutdown. Default: 10 s. */
  readonly stopTimeoutMs?: number;
}

export interface LocalPostgres {
  /** `postgresql://…` of the database, for its superuser, on 127.0.0.1 and a port that changes with every start. */
  readonly url: string;
  /** True if there was no cluster yet. */
  readonly firstStart: boolean;
  /** Closes connections and waits until the server has ended. Idempotent. */
  stop(): Promise<void>;
}

/**
 * Starts Postgres on a folder, in its own session, and resolves when it accepts connections. Lock the folder before, so that
 * no other process does the same. Stops the orphaned server of a killed owner first. Throws {@link LocalPostgresError}.
 */
export async function startLocalPostgres(options: LocalPostgresOptions): Promise<LocalPostgres> {
  try {
    return await start(options);
  } catch (error) {
    if (error instanceof LocalPostgresError || systemCode(error) === undefined) throw error;
    const reason = error instanceof Error ? error.message : String(error);
    throw new LocalPostgresError(`Postgres cannot use the folder ${options.dataDir}: ${reason}`, {
      cause: error,
    });
  }
}

async function start(options: LocalPostgresOptions): Promise<LocalPostgres> {
  const { dataDir, database = 'weighbridge', settings = {}, onExit, onRestart } = options;
  const { startTimeoutMs = 60_000, stopTimeoutMs = 10_000 } = options;

  const account = serverAccount();
  const binaries = await locateBinaries(account);
  const folder = openFolder(account, dataDir);
  await stopOrphanedServer(folder.cluster, stopTimeoutMs);
  const unsafe = settings.fsync === 'off';
  const { firstStart, password } = await prepareCluster({ account, binaries, folder, database, unsafe });
  const serverOptions = { account, binaries, folder, settings, startTimeoutMs };
  const server = await startServer(serverOptions);
  const supervised = supervise(server, {
    startAgain: async () => {
      await stopOrphanedServer(folder.cluster, stopTimeoutMs);
      return startServer({ ...serverOptions, port: server.port });
    },
    log: folder.log,
    onExit,
    onRestart,
  });
  let stopping: Promise<void> | undefined;
  return {
    url: `postgresql://${SUPERUSER}:${password}@127.0.0.1:${server.port}/${database}`,
    firstStart,
    stop: () => {
      stopping ??= supervised.stop(stopTimeoutMs);
      return stopping;
    },
  };
}

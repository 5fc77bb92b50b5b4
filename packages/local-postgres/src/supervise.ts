import { tailOfFile } from './errors.ts';
import type { Server } from './server.ts';

const MAX_RESTARTS = 3;
const RESTARTS_WITHIN_MS = 600_000;

export interface SuperviseOptions {
  /** On the same port, so that the URL stays true. */
  readonly startAgain: () => Promise<Server>;
  /** The file of the server's log. */
  readonly log: string;
  readonly onExit: ((detail: string) => void) | undefined;
  /** Undefined: never started again. */
  readonly onRestart: ((detail: string) => void) | undefined;
}

/** Reports a server that ends by itself, and starts it again as the options say. */
export function supervise(
  first: Server,
  { startAgain, log, onExit, onRestart }: SuperviseOptions,
): Pick<Server, 'stop'> {
  let server = first;
  let stopping = false;
  const restarts: number[] = [];
  const supervising = watch();

  async function watch(): Promise<void> {
    for (;;) {
      const how = await server.ended;
      if (stopping) return;
      const detail = `Postgres ended by itself (${how}). The end of its log ${log}:${await tailOfFile(log)}`;
      const recent = restarts.filter((at) => Date.now() - at < RESTARTS_WITHIN_MS).length;
      if (!onRestart || recent >= MAX_RESTARTS) return onExit?.(detail);
      restarts.push(Date.now());
      onRestart(detail);
      try {
        server = await startAgain();
      } catch (error) {
        return onExit?.(`${detail}\nIt could not be started again: ${String(error)}`);
      }
      if (stopping) return server.stop(0);
    }
  }

  return {
    async stop(timeoutMs) {
      stopping = true;
      await server.stop(timeoutMs);
      await supervising;
    },
  };
}

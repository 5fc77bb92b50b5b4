import type { Logger, ServiceContext } from '@weighbridge/runtime';

export interface RepeatedTask {
  /** Names the step of the shutdown that waits for it. */
  readonly name: string;
  readonly everyMs: number;
  /** Whether a run is due. Default: always. */
  readonly isDue?: () => boolean;
  readonly run: (stopping: AbortSignal) => Promise<void>;
  /** The log line if a run fails. */
  readonly onFailure: string;
}

/**
 * Runs a task at once and then periodically, one run at a time, until the service ends. The shutdown aborts the signal of the
 * run in progress and waits for its end. A single failure is logged at `info`: a busy machine has some while it starts.
 */
export function repeat(
  { name, everyMs, isDue = () => true, run, onFailure }: RepeatedTask,
  logger: Pick<Logger, 'info' | 'warn'>,
  { onShutdown }: Pick<ServiceContext, 'onShutdown'>,
): void {
  const stopping = new AbortController();
  let running: Promise<void> | undefined;
  let hasFailed = false;
  const runOnce = async (): Promise<void> => {
    try {
      await run(stopping.signal);
      hasFailed = false;
    } catch (error) {
      if (!stopping.signal.aborted) logger[hasFailed ? 'warn' : 'info']({ why: error }, onFailure);
      hasFailed = true;
    } finally {
      running = undefined;
    }
  };
  const runIfDue = () => {
    if (isDue()) running ??= runOnce();
  };
  const timer = setInterval(runIfDue, everyMs);
  runIfDue();
  onShutdown(name, async () => {
    clearInterval(timer);
    stopping.abort();
    await running;
  });
}

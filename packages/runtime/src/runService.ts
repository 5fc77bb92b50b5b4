import { createLogger, type Logger } from './logger.ts';

/** What a service's start gets to work with. */
export interface ServiceContext {
  readonly logger: Logger;
  /**
   * Registers how to close what was just opened. Steps run newest first, each within its time. Throws, having registered
   * it, where the service is ending already: that ends a start that a signal cut short.
   */
  onShutdown(name: string, step: () => unknown, timeoutMs?: number): void;
  /** Ends the service, in order, because something that it can't do without is gone. */
  fail(error: Error): void;
}

const STEP_TIMEOUT_MS = 10_000;
const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/**
 * Runs a service until a signal ends it or it fails, then closes what it opened, in reverse. Resolves with the exit
 * code. A failed start is told on standard error in the error's own words: they are written for the operator.
 */
export async function runService(
  service: string,
  start: (context: ServiceContext) => Promise<void>,
): Promise<0 | 1> {
  const logger = createLogger(service);
  const steps: { name: string; step: () => unknown; timeoutMs: number }[] = [];
  const ending = endOfService();
  let isEnding = false;
  let hasStarted = false;
  const context: ServiceContext = {
    logger,
    onShutdown: (name, step, timeoutMs = STEP_TIMEOUT_MS) => {
      steps.push({ name, step, timeoutMs });
      if (isEnding) throw new Error('the service is ending');
    },
    fail: (error) => ending.end(error),
  };
  async function closeAll(): Promise<void> {
    for (let next = steps.pop(); next; next = steps.pop()) {
      await runStep(logger, next.name, next.step, next.timeoutMs);
    }
  }
  let failure: Error | undefined;
  const started = start(context);
  try {
    failure = await Promise.race([
      started.then(() => {
        hasStarted = true;
        return ending.ended;
      }),
      ending.ended,
    ]);
  } catch (error) {
    failure = error instanceof Error ? error : new Error(String(error));
  }
  if (failure) {
    process.stderr.write(`${service}: ${explainError(failure)}\n`);
    logger.debug({ err: failure }, 'the service failed');
  }
  isEnding = true;
  // What a start does after a signal fails as it must, and is no news.
  if (!hasStarted && !failure && logger.level !== 'debug') logger.level = 'silent';
  await closeAll();
  // A signal in the midst of a start: closing what it waits for ends it, and what it opened meanwhile is closed too.
  await within(started, STEP_TIMEOUT_MS).catch((error) =>
    logger.debug({ err: error }, 'the start was cut short'),
  );
  await closeAll();
  ending.release();
  return failure ? 1 : 0;
}

/** The message and those of its causes, so that nobody has to guess what lies behind it. */
export function explainError(error: Error): string {
  const causes: string[] = [];
  for (let at: unknown = error; at instanceof Error && causes.length < 5; at = at.cause) {
    const text =
      at.message || (at instanceof AggregateError && at.errors.map((inner) => inner.message).join('; '));
    if (text && !causes.some((cause) => cause.includes(text))) causes.push(text);
  }
  return causes.join(': ');
}

async function runStep(logger: Logger, name: string, step: () => unknown, timeoutMs: number): Promise<void> {
  const began = performance.now();
  try {
    await within(step(), timeoutMs);
    logger.info({ step: name, durationMs: Math.round(performance.now() - began) }, 'closed');
  } catch (error) {
    logger.error({ step: name, err: error }, 'could not be closed in order');
  }
}

async function within(work: unknown, timeoutMs: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`took longer than ${timeoutMs} ms`)), timeoutMs);
  });
  try {
    await Promise.race([work, timeout]);
  } finally {
    clearTimeout(timer);
  }
}

function endOfService() {
  let end: (failure?: Error) => void = () => {};
  const ended = new Promise<Error | undefined>((resolve) => {
    end = resolve;
  });
  // Kept until the end: a second Ctrl-C, or one that a parent process passes on, must not cut the shutdown short.
  const onSignal = () => end();
  for (const signal of SIGNALS) process.on(signal, onSignal);
  return {
    ended,
    end,
    release: () => {
      for (const signal of SIGNALS) process.off(signal, onSignal);
    },
  };
}

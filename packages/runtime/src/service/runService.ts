import { createLogger, type Logger } from '../logging/logger.ts';

/** Passed to a service's `start`. */
export interface ServiceContext {
  readonly logger: Logger;
  /**
   * Registers a shutdown step for what was just opened. Steps run newest first, each with a time-out. If the service is
   * shutting down already, it registers the step and throws, which ends a start that a signal interrupted.
   */
  onShutdown(name: string, step: () => unknown, timeoutMs?: number): void;
  /** Shuts the service down because of a fatal error. */
  fail(error: Error): void;
}

const STEP_TIMEOUT_MS = 10_000;
const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/**
 * Runs a service until a signal or a failure, then closes what it opened, in reverse order. Resolves with the exit code.
 * Writes the message of a failure to standard error, for the operator.
 */
export async function runService(
  service: string,
  start: (context: ServiceContext) => Promise<void>,
): Promise<0 | 1> {
  const logger = createLogger(service);
  const steps: { name: string; step: () => unknown; timeoutMs: number }[] = [];
  const ending = listenForEnd();
  let isEnding = false;
  let hasStarted = false;
  const context: ServiceContext = {
    logger,
    onShutdown: (name, step, timeoutMs = STEP_TIMEOUT_MS) => {
      steps.push({ name, step, timeoutMs });
      if (isEnding) throw new Error('the service is shutting down');
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
  // An interrupted start logs errors of what was closed under it: those are expected.
  if (!hasStarted && !failure && logger.level !== 'debug') logger.level = 'silent';
  await closeAll();
  // Closing what an interrupted start waits for ends it. What it opened meanwhile is closed after it.
  await within(started, STEP_TIMEOUT_MS).catch((error) =>
    logger.debug({ err: error }, 'a signal interrupted the start'),
  );
  await closeAll();
  ending.release();
  return failure ? 1 : 0;
}

/** The error's message and those of its causes, joined by colons. */
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
    logger.error({ step: name, err: error }, 'failed to close in time');
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

function listenForEnd() {
  let end: (failure?: Error) => void = () => {};
  const ended = new Promise<Error | undefined>((resolve) => {
    end = resolve;
  });
  // Until the end: a second Ctrl-C, or one that a parent process forwards, must not interrupt the shutdown.
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
